"""One queue as its producer sees it: where its jobs come from, how many are wanted, and the lanes that they go to.

Made by the producer, and used by its thread alone. It deliberately does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.work.claim.demand import Demand
from fastq.work.claim.portion import Portion
from fastq.work.claim.resting import Resting
from fastq.work.claim.waiting import Waiting
from fastq.work.cursor.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.work.shared.feed import Feed


class Source:
    """All that a producer keeps for one queue."""

    def __init__(self, feed: Feed, board_: Board, kinds: Iterable[str], config: Config) -> None:
        self.feed = feed
        self.name = feed.name
        self.cursor = Cursor(board_, feed.number, feed.name, config.poll_interval)
        self.portion = Portion(config)
        self.demand = Demand(feed, self.cursor, self.portion, config)
        self.waiting = Waiting(self.cursor.words, feed.name, kinds, config)
        self.resting = Resting(self.cursor.words, feed.name, kinds)

    def due(self) -> bool:
        """Tell whether a look at the database can find something."""
        return self.cursor.due() or self.waiting.due()

    def wait(self) -> float:
        """Return the seconds until it can."""
        return min(self.cursor.wait(), self.waiting.wait())
