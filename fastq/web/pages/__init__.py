"""Pages about jobs: the overview, lists, a single job, discarded ones, workflows, periodic jobs; each is a module.

Another page is another module with its CONTENT, named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.web.pages import dead, job, jobs, many, overview, periodic, stack, workflows

if TYPE_CHECKING:
    from fastq.web.routing.view import Action, View

CONTENTS: tuple[View | Action, ...] = (
    *overview.CONTENT,
    *jobs.CONTENT,
    *many.CONTENT,
    *job.CONTENT,
    *stack.CONTENT,
    *dead.CONTENT,
    *workflows.CONTENT,
    *periodic.CONTENT,
)
"""The pages and actions, in the order of the menu."""
