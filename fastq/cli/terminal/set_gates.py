"""Say at which gates of an application a number holds that an operator has set, and that is not the one in the code.

Such a number prevails until somebody takes it back, however often the number in the code is changed and deployed. It warns and
changes nothing: the operator may have had good reasons. It deliberately goes by the declarations of this application, and looks
at no job: a gate of which no job lives now is told of too. Runs in the main thread of `fastq run`, and keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin.gates import set_numbers
from fastq.args.gates import Ordered
from fastq.args.options import DEFAULT_QUEUE
from fastq.args.queues import QUEUES, gates_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.args.gates import Gate
    from fastq.jobs.registry import Registry
    from fastq.postgres.db import Connection


def warnings(connection: Connection, registry: Registry) -> Iterator[str]:
    """Give a warning for each gate with such a number."""
    declared = list(_declared(registry))
    numbers = set_numbers(connection) if declared else {}
    for name in sorted({gate.name for gate in declared} & numbers.keys()):
        number = numbers[name]
        others = {gate.at_most for gate in declared if gate.name == name and _holds(gate, number) != gate.at_most}
        if others:
            code = " and ".join(map(str, sorted(others)))
            yield (
                f"gate '{name}': an operator has set {number}, and the code says {code}: {number} holds; "
                f"to have the code's hold: fastq gates remove {name}"
            )


def _declared(registry: Registry) -> Iterator[Gate]:
    for worker in registry.workers.values():
        yield from gates_at(worker.kind.gates, worker.kind.queue or DEFAULT_QUEUE)
    for queue in QUEUES.values():
        yield from queue.gates


def _holds(gate: Gate, number: int) -> int:
    """Return the number that holds at a gate: nobody can set more than one job at once for jobs in order."""
    return min(number, gate.at_most) if isinstance(gate, Ordered) else number
