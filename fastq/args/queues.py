"""Queues that are declared: `Queue`, the name of a queue with gates that all its jobs go through, of whatever kind.

    mails = Queue("mails", gates=[Limit("mails", at_most=20)])

    class MailArgs(Args, kind="mail", queue=mails)

Declared at import, by the thread that imports, before any thread enqueues, and only read after that: in the program that
enqueues, so that a job carries the gates of its queue besides those of its kind, and in worker processes, so that a job that came
without them is put before them.

Invariant: a queue has one declaration in a program. It deliberately says nothing else of the queue: a queue exists by its name,
and how many jobs one process works at once is the process's matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from fastq.args.gates import Gate, Ordered, check_gates
from fastq.args.options import check_queue
from fastq.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

QUEUES: dict[str, Queue] = {}
"""The declared queues by name; written at import alone."""


class Queue(str):
    """A queue with gates for all its jobs, to be given wherever a queue's name is: `Queue("mails", gates=[Limit("mails", 20)])`.

    The name alone does the same where the program has imported the declaration.
    """

    __slots__ = ("gates",)

    gates: tuple[Gate, ...]

    def __new__(cls, name: str, *, gates: Sequence[Gate]) -> Self:
        """Check and note the declaration."""
        made = super().__new__(cls, check_queue(name))
        made.gates = check_gates(gates)
        if not made.gates:
            raise OptionError(
                f"queue '{name}': expected gates, such as gates=[Limit('{name}', at_most=20)]; without any write its name"
            )
        ordered = next((gate for gate in made.gates if isinstance(gate, Ordered)), None)
        if ordered is not None:
            raise OptionError(f"queue '{name}': {ordered} is for kinds: the jobs of a queue may differ in their priority")
        before = QUEUES.setdefault(name, made)
        if before.gates != made.gates:
            raise OptionError(f"queue '{name}' is declared twice: with gates {[*before.gates]}, and with {[*made.gates]}")
        return made

    def __repr__(self) -> str:
        """Write it as one would make it."""
        return f"Queue({str(self)!r}, gates={[*self.gates]})"


def gates_at(gates: tuple[Gate, ...], queue: str) -> tuple[Gate, ...]:
    """Return the gates of a job: those of its kind, then those of its queue; a gate of both counts once, as the kind has it."""
    declared = QUEUES.get(queue)
    if declared is None:
        return gates
    names = {gate.name for gate in gates}
    return (*gates, *(gate for gate in declared.gates if gate.name not in names))
