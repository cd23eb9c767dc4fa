"""Where a running job is, or a whole worker process: its stack, taken when somebody opens the page.

The functions run in threads of the source, over its connection, and wait there for the answer of the process. The pages are not
live: each look costs the process some work, so somebody asks for it. They deliberately pass no redaction: a stack has no value of
a job, only lines of source text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.enqueue.operate.directly import stack_of
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

PATIENCE = 2.0
"""Seconds for which an answer is waited for: four who wait hold up the other pages meanwhile (live/source.py)."""


def load_job(visit: Visit) -> Mapping[str, Any]:
    """Ask for the stack of a job."""
    detail = admin.show_job(visit.connection, visit.id)
    stack = stack_of(visit.connection, job=visit.id, seconds=PATIENCE)
    return {
        "title": f"Stack of job {visit.id}",
        "subject": f"job {visit.id}",
        "kind": detail.kind if detail is not None else "",
        "path": f"/jobs/{visit.id}",
        "again": f"/jobs/{visit.id}/stack",
        "stack": stack,
    }


def load_process(visit: Visit) -> Mapping[str, Any]:
    """Ask for the stacks of a process."""
    stack = stack_of(visit.connection, process=visit.id, seconds=PATIENCE)
    return {
        "title": f"Stacks of process {visit.id}",
        "subject": f"process {visit.id}",
        "kind": "",
        "path": "/hosts",
        "again": f"/processes/{visit.id}/stack",
        "stack": stack,
    }


CONTENT = (
    View("/jobs/{id:int}/stack", "Stack of a job", "jobs.stack", "stack.html", load_job),
    View("/processes/{id:int}/stack", "Stacks of a process", "hosts.stack", "stack.html", load_process),
)
