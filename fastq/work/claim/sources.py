"""All that a worker process keeps for one of its queues, to claim from it.

The main thread makes a `Source` for each queue, with the producer; from then on the producer's thread alone uses it and writes
its attributes. It deliberately does nothing by itself: producer.py goes from part to part.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.board.cursor_words import CALLED, PRIORITIES
from fastq.work.claim.demand import Demand
from fastq.work.claim.resting import Resting
from fastq.work.claim.waiting import Waiting
from fastq.work.cursor.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.work.shared.budget import Budget
    from fastq.work.shared.lane import Feed


class Source:
    """The parts for one of so many queues; if there are several, looks at all of them at once take the place of its polls."""

    def __init__(
        self,
        feed: Feed,
        name: Callable[[int], int],
        board: Board,
        kinds: Iterable[str],
        budget: Budget,
        config: Config,
        queues: int,
    ) -> None:
        peeked = queues > 1
        self.feed = feed
        feed.calls_when_dry = peeked  # other queues come first, so it counts how long there was nothing
        self.name = name  # a claim that is about to be sent, given a seq below all that it can take
        self.cursor = Cursor(board, feed.number, feed.name, config.poll_interval, peeked=peeked)
        self.demand = Demand(feed, self.cursor, budget, config)
        self.waiting = Waiting(self.cursor.words, feed.name, kinds, config, peeked=peeked)
        self.resting = Resting(self.cursor.words, feed.name, kinds, queues)
        self.reached = [0] * PRIORITIES  # the highest seq by priority that a claim has brought

    def waits(self) -> bool:
        """Tell whether jobs may wait for a worker that is here: `Waiting.due` knows."""
        waiting, words = self.waiting, self.cursor.words
        return time.monotonic_ns() >= waiting.look_at or waiting.heard != words.waiting_hints or words.waiting_looked_at == CALLED
