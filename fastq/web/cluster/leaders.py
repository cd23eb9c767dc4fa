"""Leaders with their leases and the last runs of their chores; and asking the holder of a lease to resign.

The functions run in threads of the source, over its connection. A request to resign names the term that was shown, so it ends no
other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin import leaders
from fastq.web.routing.view import Action, Asked, Done, Missing, View

if TYPE_CHECKING:
    from fastq.admin.leaders import LeaseRow
    from fastq.web.routing.view import Visit

LEADING = ("leader:", "schema")
"""How the names of leaders' leases begin; the others are those of singletons and of programs of the user's."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the leases of leaders, and the chores."""
    leases = [lease for lease in leaders.list_leases(visit.connection) if lease.name.startswith(LEADING)]
    return {"leases": leases, "chores": leaders.list_chores(visit.connection), "led": any(lease.held for lease in leases)}


def _found(visit: Visit) -> LeaseRow:
    name = visit.need("name")
    lease = next((lease for lease in leaders.list_leases(visit.connection) if lease.name == name), None)
    if lease is None or not lease.held:
        raise Missing(f"nobody holds a lease '{name[:200]}'")
    return lease


def _ask(visit: Visit) -> Asked:
    lease = _found(visit)
    leading = lease.name.startswith(LEADING)
    explained = (
        "It goes on working jobs, leaves leading to another supervisor, and stands again two seconds later."
        if leading
        else "Its holder is told to stop, and another process may take it over."
    )
    facts = (("holder", lease.holder), ("term", str(lease.term)))
    return Asked(
        f"Ask the holder of '{lease.name}' to resign?",
        f"lease '{lease.name}'",
        "/leaders" if leading else "/singletons",
        facts,
        explained,
    )


def _resign(visit: Visit) -> Done:
    name = visit.need("name")
    asked = leaders.resign(visit.connection, name, visit.number("term"))
    return Done(
        f"the holder of '{name}' " + ("was asked to resign" if asked else "had changed, so nobody was asked"), asked is not None
    )


CONTENT = (
    View("/leaders", "Leaders", "leaders.read", "leaders.html", load, every=2.0, menu=True),
    Action("/leaders/resign", "Ask it to resign", "leaders.resign", _ask, _resign),
)
