"""The things that run now: worker processes by host, the jobs in state running, and what needs somebody, for an operator.

Plain functions over a connection of the caller's, in the caller's thread; they keep nothing.
"""

from fastq.admin.running.hosts import ProcessRow, ProcessVitals, RunningRow, list_processes, list_running
from fastq.admin.running.notices import Notice, list_notices

__all__ = ["Notice", "ProcessRow", "ProcessVitals", "RunningRow", "list_notices", "list_processes", "list_running"]
