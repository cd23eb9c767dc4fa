"""Help for tests of programs that use fastq, imported by tests alone: jobs worked in the test itself, and parts made by hand.

`Jobs` and `AsyncJobs` ask which jobs a test has enqueued, and work them by the real route, without processes; the pytest plugin
(fastq_pytest/, beside this package) gives them as fixtures. `database` makes a database of tests, `prepare` makes one of the
user's ready. The others are for tests of a single worker or lease: they need no database.

Used in the threads of a test, which makes and owns the objects. The modules here put parts of worker processes and of leaders
together, as work/process.py and lead/maintainer.py do.
"""

from fastq.leases.memory import LeaseBoard, MemoryLease
from fastq.steps.remembered import Remembered
from fastq.testing.by_hand import check_versions, steps, transactions
from fastq.testing.clock import Clock, prepare
from fastq.testing.databases import database
from fastq.testing.jobs_here import AsyncJobs, Jobs, inline
from fastq.testing.matching import Seen
from fastq.testing.ran import Ran

__all__ = [
    "AsyncJobs",
    "Clock",
    "Jobs",
    "LeaseBoard",
    "MemoryLease",
    "Ran",
    "Remembered",
    "Seen",
    "check_versions",
    "database",
    "inline",
    "prepare",
    "steps",
    "transactions",
]
