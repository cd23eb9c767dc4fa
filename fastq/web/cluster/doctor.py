"""The doctor's findings: an examination of the database that somebody asks for by a button, and reads with the lines to type.

`load` runs in a thread of the source, but the examination has a session of its own (admin/doctor/), which costs more than a page:
so it is made when it is asked for, never by itself, and one at a time for all viewers of this program. It may take longer than
other pages do, while the other threads of the source go on.

It deliberately repairs nothing: who may read a finding need not be one who may change the database.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin import doctor
from fastq.errors import FastqError
from fastq.masked import masked
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

EXAMINING = threading.Lock()
"""Held by the thread that examines."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Examine the database if the address says so."""
    questions = [(check.name, check.asks) for check in doctor.CHECKS.values()]
    if visit.get("examine") is None:
        return {"examined": None, "questions": questions}
    if not EXAMINING.acquire(blocking=False):
        raise FastqError("an examination of this database runs already: load this page anew in some seconds")
    try:
        examined = doctor.examine(visit.config, visit.config.database_url)
    finally:
        EXAMINING.release()
    findings = sorted(examined.findings, key=lambda finding: -doctor.LEVELS.index(finding.level))
    counts = Counter(finding.level for finding in findings)
    return {
        "examined": examined,
        "questions": questions,
        "findings": [
            (one, masked(one.found), masked(one.means), masked(one.remedy)) for one in findings if one.level != doctor.LEVELS[0]
        ],
        "well": [(one, masked(one.found)) for one in findings if one.level == doctor.LEVELS[0]],
        "counts": [(level, counts[level]) for level in reversed(doctor.LEVELS) if counts[level]],
    }


CONTENT = (View("/doctor", "Doctor", "doctor.read", "doctor.html", load, menu=True),)
