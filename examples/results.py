"""Results: a report is counted by a worker, and another program watches its progress and gets the typed result.

fastq dev examples.results:registry             works the jobs; brings its own Postgres
python -m examples.results                      enqueues a report, and says which job it is (in another terminal)
python -m examples.results 1                    watches job 1, and prints its result

Meanwhile, in a third: fastq jobs show 1, fastq jobs wait 1.
"""

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from examples import database
from fastq import Args, Client, Job, Registry, Worker

registry = Registry()

ROWS = 300


@dataclass
class Report:
    rows: int
    made_at: datetime


@dataclass
class ReportArgs(Args, kind="report", result=Report):
    rows: int


@registry.register
class ReportWorker(Worker[ReportArgs, Report]):
    def work(self, job: Job[ReportArgs]) -> Report:
        for row in range(job.args.rows):
            time.sleep(0.005)
            job.progress((row + 1) / job.args.rows, f"row {row + 1}")  # as often as you like: it is written once a second
        return Report(job.args.rows, datetime.now(UTC))


def main() -> None:
    """Enqueue a report, or watch one."""
    with Client(database.url()) as client:
        if len(sys.argv) > 1:
            watch(client, int(sys.argv[1]))
        else:
            print(f"the report is job {client.enqueue(ReportArgs(ROWS))}")


def watch(client: Client, job_id: int) -> None:
    """Print how far a job is each half second, and its result when it has ended."""
    while True:
        try:
            report = client.wait(job_id, result=Report, timeout=0.5).unwrap()
        except TimeoutError:
            told = client.progress(job_id)
            print(f"{told.fraction:.0%}, {told.text}" if told else "not begun")
        else:
            print(f"{report.rows} rows at {report.made_at:%H:%M:%S}")
            return


if __name__ == "__main__":
    main()
