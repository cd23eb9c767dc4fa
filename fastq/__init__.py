"""A fast, reliable job queue for Python on Postgres."""

from fastq.args import Args, Kind, kind
from fastq.config import Config
from fastq.errors import FastqError
from fastq.job import Cancel, Job, Snooze
from fastq.worker import Registry, Worker

__all__ = ["Args", "Cancel", "Config", "FastqError", "Job", "Kind", "Registry", "Snooze", "Worker", "kind"]
