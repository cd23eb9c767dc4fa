"""Jobs as lines of JSON, out of one database and into another: export, the format, import.

Plain values and the statements in their order, run in the thread or event loop of whoever asks.
"""

from fastq.admin.exports.imported import Imported

__all__ = ["Imported"]
