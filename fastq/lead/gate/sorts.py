"""The sorts of gates that the gatekeeper knows, by the word that a job carries (args/gates.py), with the classes of their rules.

Read by the keeper (keeper.py), in the thread of the gatekeeper's track, in the supervisor that leads. The table never changes,
and `entries_in` is pure. A text that tells no gates, or a sort of a newer program, is a closed gate without a name: its jobs wait
until somebody repairs or cancels them, or a program leads that knows the sort, and no other job waits with them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fastq.args.gates import HOLDS, Entry, Fair, Limit, Ordered, read_entries
from fastq.args.rate import Rate
from fastq.lead.gate.keys import Gate
from fastq.lead.gate.rates import RateGate
from fastq.lead.gate.rounds import FairGate

CLOSED = "closed"
SORTS: dict[str, type[Gate[Any]]] = {
    Limit.sort: Gate,
    Ordered.sort: Gate,
    HOLDS: Gate,
    Fair.sort: FairGate,
    Rate.sort: RateGate,
    CLOSED: Gate,
}


def entries_in(gates: str) -> tuple[list[Entry], bool]:
    """Return the gates of a line from its text, and whether these could be read."""
    try:
        entries = read_entries(gates)
    except msgspec.MsgspecError:
        entries = []
    if entries and all(
        entry.sort in SORTS and entry.sort != CLOSED and entry.weight > 0 and SORTS[entry.sort].reads(entry) for entry in entries
    ):
        return entries, True
    return [Entry(CLOSED, "", msgspec.Raw(b'""'), 1, 0)], False
