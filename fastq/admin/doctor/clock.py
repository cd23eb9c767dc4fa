"""The check of the clock of this machine against the database's.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. Each machine is compared with the database, so two machines are compared by an examination on each of them.
The time that the question takes is the error of the answer, and counts in the machine's favour.

It deliberately sets no clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.admin.doctor.checks import BAD, OK, WARN, Check, Found, Patient, lasted

if TYPE_CHECKING:
    from collections.abc import Iterator

APART, FAR = 2.0, 60.0
"""Seconds of difference: a clock that is kept by NTP differs by milliseconds; a minute is a job that comes a minute late."""


def _clock(patient: Patient) -> Iterator[Found]:
    before = time.time()
    [(there,)] = patient.connection.ask("select extract(epoch from clock_timestamp())::float8")
    after = time.time()
    ahead = (before + after) / 2 - there
    apart = max(0.0, abs(ahead) - (after - before) / 2)
    if apart < APART:
        yield Found(OK, "the clocks of this machine and of the database show the same")
        return
    found = f"the clock of this machine is {lasted(apart)} {'ahead of' if ahead > 0 else 'behind'} the database's"
    means = "times that programs here give to enqueue (`at`, `expires`, `deadline`) come true that much off; fastq's own do not"
    yield Found(BAD if apart >= FAR else WARN, found, means, "timedatectl set-ntp true")


CHECKS = (Check("clock", "does this machine's clock show what the database's shows?", _clock, of_tables=False),)
