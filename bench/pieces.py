"""Parts of the runtime, wired up by hand: what the suites about one step need of the steps before it."""

import itertools
import struct

from fastq.args.options import DEFAULT_QUEUE
from fastq.bench.app import registry
from fastq.bench.load import fill
from fastq.board.board import Board
from fastq.postgres import db
from fastq.work.codec.claimed import SEPARATOR, Claimed
from fastq.work.codec.codec import decode
from fastq.work.cursor.cursor import Cursor

FIRST_CLAIM = 1 << 32


class Claimer:
    """A cursor with a session of its own on a table that was just filled."""

    def __init__(self, config, connection, jobs):
        fill(connection, jobs, paused=False)
        self.session = db.connect(config.database_url, role="claim", schema=config.schema)
        self._cursor = Cursor(Board.make([1], 1, 1), 0, DEFAULT_QUEUE, config.poll_interval)
        self._claims = itertools.count(FIRST_CLAIM)

    def claim(self, limit):
        """Return the parts of one claim."""
        parts = []
        last = self._cursor.send_look(self.session, lambda _: next(self._claims), limit, parts.append)
        return [part for part in (*parts, last) if part]

    def jobs(self, count, batch):
        """Claim and decode so many jobs."""
        jobs = []
        while len(jobs) < count:
            for part in self.claim(min(batch, count - len(jobs))):
                jobs += decode(part, registry.workers)[0]
        return jobs


def claimed(kind, args):
    """Return a claim of so many jobs as if a database had sent it."""
    count = len(args)
    numbers = struct.pack(f">{count}q", *range(1, count + 1))
    counts = struct.pack(">4h", 0, 1, 25, 1) * count
    kinds = SEPARATOR.join([kind.encode()] * count)
    row = [numbers, numbers, counts, bytes(8 * count), kinds, (b"," + SEPARATOR).join(args), None, None]
    return Claimed(DEFAULT_QUEUE, FIRST_CLAIM, row)
