"""Pages about the cluster: queues, gates and keys, pauses, hosts, leaders and singletons, operations, the audit, the doctor.

Another page is another module with its CONTENT, named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.web.cluster import audit, doctor, gates, hosts, leaders, operations, pauses, queues, singletons

if TYPE_CHECKING:
    from fastq.web.routing.view import Action, View

CONTENTS: tuple[View | Action, ...] = (
    *queues.CONTENT,
    *pauses.CONTENT,
    *gates.CONTENT,
    *hosts.CONTENT,
    *leaders.CONTENT,
    *singletons.CONTENT,
    *operations.CONTENT,
    *audit.CONTENT,
    *doctor.CONTENT,
)
"""The pages and actions, in the order of the menu."""
