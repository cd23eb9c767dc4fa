"""A program with a slot for isolated jobs, whose job is cancelled before the slot has asked for its process; prints the end."""

import time

from fastq.board.board import Board
from fastq.jobs.outcome import fate_of
from fastq.work.codec.codec import decode
from fastq.work.isolated.apart import Apart
from fastq.work.shared.lane import Outbox
from tests.codec.claims import claimed
from tests.helpers import wait_for
from tests.process.isolated import registry


def main() -> None:
    """Hand the job to the slot, and wait for its end."""
    outbox = Outbox()
    mode = Apart(outbox, 0)
    mode.prepare([registry.workers["long"]])
    lane = mode.lane(Board.make([1], 1, 8).lane(0, 0, 0), 1, lambda: None)
    [job] = decode(claimed([("long", b'{"seconds":600}')]), registry.workers)[0]
    job.cancelled = True
    lane.put([job], 0)
    mode.start()
    try:
        wait_for(lambda: list(outbox.jobs), 10.0, "the end of the job")
        print(fate_of(job.outcome).state, fate_of(job.outcome).error)
    finally:
        mode.stop()
        mode.finish(time.monotonic() + 5)


if __name__ == "__main__":
    main()
