"""`fastq bench`: measure the speed of fastq on this machine, and the most that this machine could do at all.

Run by the CLI, in its main thread; the measured code runs in programs of its own (child.py), so that this one is only the clock.
Everything happens in the schema `fastq_bench`, which is dropped before and after; no other schema is touched. Nothing is imported
here: the worker processes that are measured import this package too, and must not carry the measuring with them.

    load       the schema, and jobs in it             floor      the same statements, pumped without a runtime
    route      jobs through the real supervisor       latency    commit to the start of `work`, on an idle system
    enqueue    single, many, COPY                     cost       CPU, WAL and memory, as the kernel and Postgres count them
    idle       the cost of waiting                    backlog    whether a claim is slower with more jobs behind it
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run `fastq bench ARGV` and return the exit code."""
    from fastq.bench.command import main as command  # noqa: PLC0415 - see above

    return command(argv)
