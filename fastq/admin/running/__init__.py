"""The things that run now: worker processes by host, and the jobs in state running, for an operator.

Plain functions over a connection of the caller's, in the caller's thread; they keep nothing.
"""

from fastq.admin.running.hosts import ProcessRow, RunningRow, list_processes, list_running

__all__ = ["ProcessRow", "RunningRow", "list_processes", "list_running"]
