"""Job logs: an import prints and logs while it runs, fails once, and another program follows it live.

fastq dev examples.job_logs:registry            works the jobs; brings its own Postgres
python -m examples.job_logs                     enqueues an import, and says which job it is (in another terminal)
python -m examples.job_logs 1                   follows the log of job 1 until it has ended, as fastq logs 1 -f does

Afterwards: fastq logs 1 --attempt 2, fastq logs --sizes.
"""

import logging
import sys
import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()
log = logging.getLogger("shop.imports")

LOCKED = 3


@dataclass
class ImportArgs(Args, kind="import"):
    files: int


@registry.register
class ImportWorker(Worker[ImportArgs]):
    logs = True  # what these jobs log and print is kept with them

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - what it is given
        return 0.5

    def work(self, job: Job[ImportArgs]) -> None:
        for number in range(1, job.args.files + 1):
            print(f"reading file {number}")
            time.sleep(0.2)
            if number == LOCKED and job.attempt == 1:
                log.error("file %d is locked", number)
                raise PermissionError(f"file {number}")
        log.info("all %d files are read", job.args.files)


def main() -> None:
    """Enqueue an import, or print the log of one as it comes."""
    with Client(database.url()) as client:
        if len(sys.argv) > 1:
            for line in client.follow_logs(int(sys.argv[1])):
                print(f"attempt {line.attempt}  {line}", flush=True)
        else:
            print(f"the import is job {client.enqueue(ImportArgs(files=4))}")


if __name__ == "__main__":
    main()
