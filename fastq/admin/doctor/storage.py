"""Checks of the room that is made ahead and given back: the archive's days, and the numbers that sequences have left.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Pure judgement over some rows of the catalogue.

It deliberately counts no job: a partition is told of by its name and its size.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fastq.admin.doctor.checks import BAD, NOTE, OK, WARN, Check, Found, Patient, counted, first_of, sized
from fastq.jobs.retention import Retention
from fastq.schema.partitions import NAME, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF, NEARLY_ALL = 0.5, 0.9
"""Shares of a sequence's numbers: at half of them there is time to think; numbers of 64 bits are never used up honestly."""


def _archive(patient: Patient) -> Iterator[Found]:
    rows = patient.ask("doctor_archive", f'"{patient.schema}".job_archive', f'"{patient.schema}".job_archive_rest')
    sizes, today = {name: size for name, size, _ in rows}, rows[0][2]
    days = sorted(name for name in sizes if NAME.fullmatch(name))
    found = []
    if missing := [name_of(day) for day in (today, today + timedelta(days=1)) if name_of(day) not in sizes]:
        means = "a leader's chore `partitions` makes them each hour; jobs that end meanwhile are put aside, and moved later"
        told = f"the archive has no partition {' and no '.join(missing)}"
        found.append(Found(WARN, told, means, "fastq leader"))
    kept = Retention.parse(patient.config.keep).whole_days(patient.config.archive_days)
    if old := [name for name in days if name < name_of(today - timedelta(days=kept + 1))]:
        told = (
            f"{len(old)} of the archive's partitions are older than the {kept} days of this environment, the oldest is {old[0]}"
        )
        means = "a leader drops them each hour, by its own FASTQ_ARCHIVE_DAYS and FASTQ_KEEP: nobody leads, or these differ"
        found.append(Found(WARN, told, means, "fastq leader", old[0]))
    for name in ("job_archive_default", "job_archive_rest"):
        if size := sizes.get(name, 0):
            told = f"{name} holds {sized(size)}: jobs that ended on days without a partition"
            found.append(Found(NOTE, told, "a leader moves them to their days", "fastq leader", name))
    yield from found or [Found(OK, f"the archive has its days ahead, {len(days)} in all")]


def _sequences(patient: Patient) -> Iterator[Found]:
    found, unseen = [], 0
    for name, last, most, told_of in patient.ask("doctor_sequences", patient.schema):
        share = (last or 0) / most
        unseen += not told_of
        if share >= HALF:
            told = f"the sequence {name} is at {last:,}, and ends at {most:,}"
            means = "at its end each insert is refused: find out who has set it so far ahead"
            found.append(Found(BAD if share >= NEARLY_ALL else WARN, told, means, subject=name))
    if unseen:
        means = "whether one is near its end, only a role with `select` on them knows (docs/postgres.md, Roles)"
        found.append(Found(NOTE, f"this role does not see how far {counted(unseen, 'sequence')} have come", means))
    yield from first_of(found, "sequence") if found else [Found(OK, "no sequence is near its end")]


CHECKS = (
    Check("archive", "does the archive have its days ahead, and none too old?", _archive),
    Check("sequences", "is a sequence near its end?", _sequences),
)
