"""Change the jobs of a chunk by the verb of their operation: the statements, and what they say of each job.

Run by the chore (chunks.py), in its track's thread, inside the transaction of the chunk, whose first statement is fenced. Plain
functions; they keep nothing. The statements do what those for single jobs do (job_cancel, job_rerun, job_delete), with the same
effects on keys, gates and workflows. They find finished jobs by their addresses in the archive: by the ids alone a thousand of
them would take seconds.

Invariant: each job gets one outcome. They deliberately look at no filter: the statements look at the job itself again.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from fastq.admin.bulk.edits import Edit
from fastq.admin.bulk.single import CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fastq.admin.search.walks import Found
    from fastq.postgres.db import Connection

    Outcomes = Iterable[tuple[int, str]]
    Verb = Callable[[Connection, Sequence[Found], str, str | None], Iterator[Outcomes]]


def change(
    connection: Connection, verb: str, jobs: Sequence[Found], values: str, channel: str | None
) -> tuple[int, Counter[str]]:
    """Change jobs; return how many were changed, and how many were skipped by reason."""
    outcomes = Counter(outcome for rows in VERBS[verb](connection, jobs, values, channel) for _, outcome in rows)
    done = sum(outcomes.pop(outcome, 0) for outcome in CHANGED)
    return done, outcomes


def _cancel(connection: Connection, jobs: Sequence[Found], _: str, channel: str | None) -> Iterator[Outcomes]:
    yield _rows(connection.run("bulk_cancel", _living(jobs), channel))


def _retry(connection: Connection, jobs: Sequence[Found], _: str, channel: str | None) -> Iterator[Outcomes]:
    if living := _living(jobs):
        yield _rows(connection.run("bulk_hurry", living, channel))
    for ids, addresses, low, high in _days(jobs):
        yield _rows(connection.run("bulk_retry", ids, addresses, low, high, channel))


def _delete(connection: Connection, jobs: Sequence[Found], _: str, channel: str | None) -> Iterator[Outcomes]:
    if living := _living(jobs):
        yield _rows(connection.run("bulk_delete", living, [], [], datetime.now(UTC), datetime.now(UTC), channel))
    for ids, addresses, low, high in _days(jobs):
        yield _rows(connection.run("bulk_delete", [], ids, addresses, low, high, channel))


def _edit(connection: Connection, jobs: Sequence[Found], values: str, channel: str | None) -> Iterator[Outcomes]:
    yield _rows(connection.run("bulk_edit", ",".join(map(str, _living(jobs))), *Edit.read(values).parameters, channel))


VERBS: dict[str, Verb] = {"cancel": _cancel, "retry": _retry, "delete": _delete, "move": _edit, "edit": _edit}
"""How the jobs of a chunk are changed, by verb."""


def _rows(rows: Iterable[tuple[object, ...]]) -> Outcomes:
    return ((int(str(job)), str(outcome)) for job, outcome, *_ in rows)


def _living(jobs: Iterable[Found]) -> list[int]:
    return [found.job.id for found in jobs if found.address is None]


def _days(jobs: Iterable[Found]) -> Iterator[tuple[list[int], list[str], datetime, datetime]]:
    """Yield the ids and the addresses of the finished jobs of a day, and the day; an address holds in its partition."""
    ended = [(found.job.finalized_at.astimezone(UTC).date(), found) for found in jobs if found.address and found.job.finalized_at]
    for day, group in groupby(sorted(ended, key=lambda pair: (pair[0], pair[1].job.id)), key=lambda pair: pair[0]):
        of_day = [found for _, found in group]
        low = datetime(day.year, day.month, day.day, tzinfo=UTC)
        yield [each.job.id for each in of_day], [str(each.address) for each in of_day], low, low + timedelta(days=1)
