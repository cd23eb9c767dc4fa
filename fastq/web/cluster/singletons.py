"""Singletons and the leases that programs of the user's hold: who holds each, since when, and until when.

`load` runs in a thread of the source, over its connection. The action is that of leaders.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin import leaders
from fastq.web.cluster.leaders import LEADING
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the leases that are no leader's."""
    return {"leases": [lease for lease in leaders.list_leases(visit.connection) if not lease.name.startswith(LEADING)]}


CONTENT = (View("/singletons", "Singletons", "leaders.read", "singletons.html", load, every=2.0, menu=True),)
