"""Import jobs from the lines of an export: a batch at a time, each in one transaction with a note of where each job is from.

An `Importing` belongs to the caller, and runs in his thread or event loop: `batches` reads the lines, `storing` is the
transaction of a batch, `count` adds its figures when that has committed. Nothing of it grows with the number of lines.

The notes lie in the table `once`: the name says the source, the item the job's old id and when it was enqueued. So the same lines
may be imported again, or by two programs at once, and each job is enqueued once; an import that was interrupted goes on where its
last transaction was. The leader forgets notes after FASTQ_ONCE_DAYS. A copy of a database gives the same ids to other jobs: the
time of the enqueue tells them apart.

Invariant: a note and its job are committed together. It deliberately takes no connection of the caller's: an import of a million
jobs is no part of a transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.admin.exports import exported, imported
from fastq.admin.exports.exported import Head, Line
from fastq.admin.exports.imported import FAULTS, Imported, Row
from fastq.admin.session import Ask
from fastq.args.faults import show
from fastq.args.gates import GATES
from fastq.errors import DatabaseUnavailable, FastqError, OptionError
from fastq.events import emit
from fastq.postgres import hints as words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fastq.admin.session import Asking
    from fastq.jobs.registry import Registry
    from fastq.jobs.worker import Worker

BATCH = 500
"""Jobs of one transaction: some 50 ms."""

MOST_BYTES = 8_000_000
"""Characters of args in one transaction, unless a job alone has more: a statement of some megabytes."""

ROUNDS = 100
"""Statements for the jobs of a batch, while other programs take and give up their keys; a guess."""

RECORD = "\x1e"
"""The character that joins values in a statement's parameters."""


class Wanted(NamedTuple):
    """A job to enqueue."""

    id: int | str  # in its source
    source: str
    item: str
    key: str  # of a unique job
    row: Row


class Stored(NamedTuple):
    """The result of a batch: the old and the new ids of its jobs, and the fields of `Imported` with their figures."""

    made: list[tuple[int | str, int]]
    others: dict[str, int]


class Importing:
    """One import."""

    def __init__(self, registry: Registry | None, *, finished: bool, dry_run: bool) -> None:
        self.told = Imported(whole=False)
        self._workers: Mapping[str, Worker[Any]] | None = None if registry is None else registry.workers
        self._finished = finished
        self._dry_run = dry_run
        self._source: str | None = None

    def batches(self, lines: Iterable[str | bytes]) -> Iterator[list[Wanted]]:
        """Read the lines, and yield the jobs that are to be enqueued, some hundred of one source at a time."""
        batch: list[Wanted] = []
        size = 0
        for number, text in enumerate(lines, 1):
            before = self._source
            wanted = self._read(number, text.encode() if isinstance(text, str) else text)
            if batch and (self._source != before or len(batch) == BATCH or size >= MOST_BYTES):
                yield batch
                batch, size = [], 0
            if wanted is not None:
                batch.append(wanted)
                size += len(wanted.row.args)
        if batch:
            yield batch

    def storing(self, batch: Sequence[Wanted], *, hints: bool = True) -> Asking[Stored]:
        """Enqueue the jobs of a batch that were not enqueued before; to be run as one transaction."""
        name = f"import:{batch[0].source}"
        by_item = {wanted.item: wanted for wanted in batch}  # the last of those with one id
        items = RECORD.join(by_item)
        if self._dry_run:
            known = yield Ask("import_noted", (name, items))
            return Stored([], {"jobs": len(by_item) - len(known), "before": len(batch) - len(by_item) + len(known)})
        noted = yield Ask("import_note", (name, items))
        fresh = {item for (item,) in noted}
        new = [wanted for item, wanted in by_item.items() if item in fresh]
        made = (yield from _enqueued(new)) if new else {}
        held = [wanted for wanted in new if wanted.item not in made]
        wakes = RECORD.join({wake for wanted in new if wanted.item in made for wake in _wakes(wanted.row)})
        end = (name, RECORD.join(wanted.item for wanted in held), wakes)
        yield Ask("import_end", end, True) if hints else Ask("import_end", (*end, None))
        told = [(wanted.id, made[wanted.item]) for wanted in new if wanted.item in made]
        return Stored(told, {"jobs": len(told), "held": len(held), "before": len(batch) - len(new)})

    def count(self, stored: Stored) -> None:
        """Add a batch that has committed."""
        for name, jobs in stored.others.items():
            setattr(self.told, name, getattr(self.told, name) + jobs)

    def report(self) -> None:
        """Report the import as an event, whole or as far as it came."""
        told = self.told
        if not self._dry_run and (told.jobs or told.skipped or told.wrong):
            emit("jobs.imported", level=logging.INFO, jobs=told.jobs, skipped=told.skipped, wrong=told.wrong, source=self._source)

    def _read(self, number: int, text: bytes) -> Wanted | None:
        """Return the job of a line that is to be enqueued; count all others."""
        if not text.strip():
            return None
        try:
            found = exported.read(text)
            if isinstance(found, Head):
                self._source, self.told.whole = found.source, False
            elif isinstance(found, int):
                self.told.whole = True
            else:
                return self._wanted(found)
        except (FastqError, ValueError, TypeError, RecursionError) as error:
            if self._source is None:
                raise OptionError(f"line {number}: {imported.reason(error)}") from None
            self.told.wrong += 1
            if len(self.told.faults) < FAULTS:
                self.told.faults.append((number, imported.reason(error)))
        return None

    def _wanted(self, line: Line) -> Wanted | None:
        if self._source is None:
            raise OptionError(
                f'expected {{"{exported.HEAD}": {exported.FORMAT}, "source": "..."}}, the first line of an export, got a job'
            )
        if isinstance(line.id, str) and not (line.id.isprintable() and 0 < len(line.id) <= exported.LONGEST_ID):
            raise OptionError(f"id {show(line.id)}: expected a number, or 1 to {exported.LONGEST_ID} printable characters")
        name = imported.left_out(line, finished=self._finished)
        if name is not None:
            setattr(self.told, name, getattr(self.told, name) + 1)
            return None
        row = imported.row_of(line, self._source, self._workers)
        at = "" if line.created_at is None else line.created_at.isoformat()
        return Wanted(line.id, self._source, f"{line.id}@{at}", imported.key_of(line), row)


def _enqueued(new: Sequence[Wanted]) -> Asking[dict[str, int]]:
    """Enqueue jobs; return the new ids by the items of those that were, without those of which another job holds the key."""
    made: dict[str, int] = {}
    firsts = {wanted.key or wanted.item: wanted for wanted in reversed(new)}  # of several with one key the first has it
    left = [wanted for wanted in new if firsts[wanted.key or wanted.item] is wanted]
    for _ in range(ROUNDS):
        columns = [RECORD.join(column) for column in zip(*(wanted.row for wanted in left), strict=True)]
        rows = yield Ask("job_enqueue_unique", (*columns, None))
        fates = [(wanted, int(job), fate) for wanted, (job, fate, _) in zip(left, rows, strict=True)]
        made |= {wanted.item: job for wanted, job, fate in fates if fate == "new"}
        ended = [str(job) for _, job, fate in fates if fate == "ended"]
        settled = ended and (yield Ask("unique_settle", (RECORD.join(ended),)))[0][0]
        again = ("unseen", "ended") if settled else ("unseen",)  # those that ended without success hold their keys
        left = [wanted for wanted, _, fate in fates if fate in again]
        if not left:
            return made
    raise DatabaseUnavailable(
        f"jobs were not imported: other programs were faster {ROUNDS} times with their keys; import them again"
    )


def _wakes(row: Row) -> set[str]:
    """Return the hints for a job; a time that it waits for may have passed."""
    now = words.GATE.word if f'"{GATES.name}":' in row.meta else row.queue
    return {words.DUE.word, now} if row.at else {now}
