"""Backoff between attempts that fail: each is twice as long as the one before, up to the longest; a success begins them anew.

Plain values, in any process: a thread has a `Backoff` for each thing that it tries again and again. It is made with the object
that holds it, often by the main thread before that thread starts; from then on the thread alone calls it, and sleeps by itself.
`spread` is pure. The figures are the caller's, with their reasons. It deliberately counts no attempts and knows no clock.
"""

from __future__ import annotations

import random


class Backoff:
    """The pauses of one thread that tries something again and again."""

    def __init__(self, first: float, longest: float) -> None:
        self.coming = first  # seconds: the next result of `next`
        self._first = first
        self._longest = longest

    def next(self) -> float:
        """Return the seconds to wait now, and double those of the next pause."""
        pause, self.coming = self.coming, min(self.coming * 2, self._longest)
        return pause

    def reset(self) -> None:
        """Begin with the first pause again: an attempt has succeeded."""
        self.coming = self._first


def spread(seconds: float) -> float:
    """Return half of a pause or more, at random: processes that failed at one moment do not try again at one moment."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
