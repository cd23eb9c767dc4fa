"""Find the function that is called with each job of a kind: the worker's `work`, with everything that stands around it.

Asked by the producer's thread, once per kind and claim; the function runs in executor threads and on the event loop. Around
`work` stand, from the inside out: the hooks, composed when the worker was registered (hooks/around.py); the current job, where
the application has imported `fastq.current_job` or `fastq.logs`; Django's part, where it has a Django.

Invariant: where there is none of these, the function is `work` itself. It deliberately decides nothing by the job.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fastq.work.shared import django_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.jobs.worker import Worker

CURRENT = "fastq.hooks.current"
"""The module that says which job is the current one: who asks for that imports it."""


def call_of(worker: Worker[Any]) -> Callable[[Any], Any]:
    """Return the function to call with each job of a worker."""
    work = worker.called or worker.work
    current = sys.modules.get(CURRENT)
    if current is not None:
        work = current.within(work, is_async=worker.is_async)
    return django_jobs.within(work, is_async=worker.is_async)
