"""Dead letters: the discarded jobs of the archive in groups of like causes, replayed as new jobs, or deleted.

Values and pure functions, and the statements in their order, run in the thread or event loop of whoever asks; nothing is kept.
"""

from fastq.admin.dead.groups import DeadGroup, DeadList, Replayed
from fastq.admin.dead.operating import delete_dead, list_dead, replay_dead
from fastq.admin.dead.shape import shape

__all__ = ["DeadGroup", "DeadList", "Replayed", "delete_dead", "list_dead", "replay_dead", "shape"]
