"""Your operator: look at jobs, queues, gates, leaders and periodic jobs, and change them.

Plain functions, run in the thread that calls them, over a connection that the caller opened; they keep nothing.
"""

from fastq.admin.changes import Change, CutShort, cancel_jobs, delete_jobs, retry_jobs
from fastq.admin.gates import GateRow, list_gates, remove_gate, set_gate
from fastq.admin.held import HeldRow, list_held, release_held
from fastq.admin.jobs import JobDetail, JobRow, show_job
from fastq.admin.pauses import PauseRow, list_pauses, pause, resume, subject_of
from fastq.admin.queues import QueueRow, WaitingRow, list_queues, list_waiting, pause_queue, resume_queue
from fastq.admin.session import connect
from fastq.admin.unique import KeyRow, find_keys, list_keys, release_key
from fastq.admin.why import why_job

__all__ = [
    "Change",
    "CutShort",
    "GateRow",
    "HeldRow",
    "JobDetail",
    "JobRow",
    "KeyRow",
    "PauseRow",
    "QueueRow",
    "WaitingRow",
    "cancel_jobs",
    "connect",
    "delete_jobs",
    "find_keys",
    "list_gates",
    "list_held",
    "list_keys",
    "list_pauses",
    "list_queues",
    "list_waiting",
    "pause",
    "pause_queue",
    "release_held",
    "release_key",
    "remove_gate",
    "resume",
    "resume_queue",
    "retry_jobs",
    "set_gate",
    "show_job",
    "subject_of",
    "why_job",
]
