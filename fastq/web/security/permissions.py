"""Name the permissions of the dashboard, and hold them with the name of a viewer.

Plain values, made at import and by the application's auth function, read in the event loop that serves and in the threads that
read the database. Each page and each action names one of these permissions (routing/view.py), so a new page adds its own here.

Invariant: a name that is not listed here is refused when it is written, so a mistake in it grants nothing and hides nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from fastq.errors import OptionError

ALWAYS = "static.read"
"""The permission that each viewer has: to load the script and the style sheet."""

PERMISSIONS = {
    ALWAYS: "load the script and the style sheet",
    "overview.read": "see what runs and what needs somebody",
    "jobs.read": "list jobs and look at one",
    "jobs.args": "see args, outputs, values of steps and logs",
    "jobs.retry": "make jobs available now",
    "jobs.cancel": "end jobs before they are done",
    "jobs.delete": "remove jobs for good",
    "bulk.retry": "make all jobs available now that a filter means",
    "bulk.cancel": "end all jobs that a filter means",
    "bulk.delete": "remove all jobs for good that a filter means",
    "bulk.move": "put all jobs that a filter means into another queue",
    "jobs.stack": "have the process of a running job tell where the job is",
    "dead.read": "see discarded jobs in groups",
    "dead.replay": "enqueue discarded jobs once more",
    "dead.delete": "delete discarded jobs",
    "queues.read": "see queues, kinds that wait for a worker, and pauses",
    "queues.pause": "pause and resume queues, and everything",
    "kinds.pause": "pause and resume kinds",
    "gates.read": "see gates, keys that stand still and unique keys",
    "gates.pause": "pause and resume gates and keys",
    "gates.set": "set and remove the numbers of gates",
    "gates.release": "release keys that discarded jobs hold",
    "unique.release": "give up keys of unique jobs",
    "workflows.read": "see workflows",
    "workflows.cancel": "cancel workflows",
    "workflows.retry": "run the failed jobs of a workflow once more",
    "periodic.read": "see periodic jobs and their last ticks",
    "periodic.pause": "pause and resume periodic jobs",
    "periodic.run": "enqueue a periodic job now",
    "hosts.read": "see hosts and processes",
    "hosts.stack": "have a process tell where its jobs and threads are",
    "leaders.read": "see leaders, chores and singletons",
    "leaders.resign": "ask the holder of a lease to resign",
    "operations.read": "see the operations on many jobs, and how far they are",
    "operations.cancel": "ask for the end of an operation",
    "audit.read": "see who has changed which jobs",
    "doctor.read": "examine the database and see the findings",
}
"""Each permission with its meaning, for the page of docs and for the answer that refuses somebody."""

READER = frozenset(name for name in PERMISSIONS if name.endswith(".read") or name == "jobs.args")
"""The permissions to look at everything and to change nothing."""

OPERATOR = frozenset(PERMISSIONS)
"""All permissions."""


@dataclass(frozen=True)
class Viewer:
    """A person or a program that looks at the dashboard: `Viewer("ada")` may read, `Viewer("ada", OPERATOR)` do everything.

    The auth function of the application makes it. `name` stands in the events of each action.
    """

    name: str
    may: Iterable[str] = READER

    def __post_init__(self) -> None:
        """Refuse permissions that there are not."""
        given = [self.may] if isinstance(self.may, str) else list(self.may)
        for one in given:
            if one not in PERMISSIONS:
                near = difflib.get_close_matches(str(one), PERMISSIONS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"expected some of {', '.join(PERMISSIONS)}"
                raise OptionError(f"viewer {self.name!r}: no permission is called {one!r}; {hint}")
        object.__setattr__(self, "may", frozenset([*given, ALWAYS]))

    def has(self, permission: str) -> bool:
        """Tell whether the viewer has a permission."""
        return permission in self.may
