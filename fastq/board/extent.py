"""How large the board of a host is, by its settings. Pure functions, for the supervisor, which makes it, and its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.config import Config


def ring_size(config: Config) -> int:
    """Return how many claimed ids a lane must be able to show: four claims may be on their way, beside the executing jobs."""
    return 4 * (config.batch + sum(config.concurrency.values()))


def desk_count(config: Config) -> int:
    """Return how many desks a host has: at each place one process works while another, that recycles, may leave."""
    return 2 * config.process_count
