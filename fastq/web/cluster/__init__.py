"""Pages about the cluster that works the jobs: queues, gates and keys, pauses, hosts, leaders and singletons.

Another page is another module with its CONTENT, named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.web.cluster import gates, hosts, leaders, pauses, queues, singletons

if TYPE_CHECKING:
    from fastq.web.routing.view import Action, View

CONTENTS: tuple[View | Action, ...] = (
    *queues.CONTENT,
    *pauses.CONTENT,
    *gates.CONTENT,
    *hosts.CONTENT,
    *leaders.CONTENT,
    *singletons.CONTENT,
)
"""The pages and actions, in the order of the menu."""
