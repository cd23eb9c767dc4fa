"""Statistics for those who ask: rows of a minute, an hour or a day, percentiles, and how many jobs live.

Values and pure functions, and the statements in their order, run in the thread or event loop of whoever asks; nothing is kept.
"""

from fastq.admin.statistics.asked import jobs_that_live, living, stats, what_was_counted
from fastq.admin.statistics.measured import Living, StatRow, Times

__all__ = ["Living", "StatRow", "Times", "jobs_that_live", "living", "stats", "what_was_counted"]
