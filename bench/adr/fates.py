"""Measure the CPU of the completer's thread by job, without a database, for docs/adr/0018. `python bench/adr/fates.py`."""

import statistics
import time

from fastq.config import Config
from fastq.jobs.job import Job
from fastq.jobs.outcome import Failed, Output
from fastq.work.complete.writer import Writer

JOBS, ROUNDS = 5_000, 60
OUTCOMES = {"plain success": None, "failure": Failed('{"error":"x"}', 1.0), "output": Output('{"x":1}')}


class Archived:
    """Stands for the worker of the jobs."""

    archive = True


class Answering:
    """Stands for a connection: answers at once that all rows were ours."""

    no_hints_until = float("inf")

    def run_blobs(self, _statement, parameters):
        count = (len(parameters[0]) - 20) // 12
        return count, [count.to_bytes(8, "big")]


def batch(outcome):
    """Return jobs of one claim, each with the outcome."""
    jobs = [Job.of(None, id=1)]
    jobs[0].batch.worker = Archived()
    jobs += [Job(number, 1, None, 0, jobs[0].batch) for number in range(2, JOBS + 1)]
    for job in jobs:
        job.outcome = outcome
    return jobs


def main():
    writer = Writer(Config(), Answering)
    for name, outcome in OUTCOMES.items():
        took = []
        for _ in range(ROUNDS):
            jobs = batch(outcome)
            began = time.process_time()
            writer.write(jobs)
            took.append((time.process_time() - began) / JOBS * 1e6)
        print(f"{name:15}{statistics.median(took):6.3f} us")


if __name__ == "__main__":
    main()
