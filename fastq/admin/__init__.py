"""Your operator: look at jobs, queues, leaders and periodic jobs, and change them. Plain functions."""

from fastq.admin.changes import Change, CutShort, cancel_jobs, delete_jobs, retry_jobs
from fastq.admin.jobs import JobDetail, JobList, JobRow, list_jobs, show_job
from fastq.admin.queues import QueueRow, WaitingRow, list_queues, list_waiting, pause_queue, resume_queue
from fastq.admin.session import connect

__all__ = [
    "Change",
    "CutShort",
    "JobDetail",
    "JobList",
    "JobRow",
    "QueueRow",
    "WaitingRow",
    "cancel_jobs",
    "connect",
    "delete_jobs",
    "list_jobs",
    "list_queues",
    "list_waiting",
    "pause_queue",
    "resume_queue",
    "retry_jobs",
    "show_job",
]
