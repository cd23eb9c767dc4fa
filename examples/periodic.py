"""Periodic jobs: one each second, and one at nine o'clock in Berlin, whatever the clocks do there.

fastq dev examples.periodic:registry            runs them; brings its own Postgres
python -m examples.periodic                     tells when the report comes (needs no database)

Then in another terminal: fastq periodic list, fastq periodic pause pulse, fastq periodic run report.
Run the first command in a second terminal too: there is still one pulse a second, and it goes on when you end either.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from fastq import Args, Cron, Every, Job, Registry, Worker

registry = Registry()


@dataclass
class PulseArgs(Args, kind="pulse"):
    pass


@registry.register
class PulseWorker(Worker[PulseArgs]):
    def work(self, job: Job[PulseArgs]) -> None:
        print(f"pulse    for {job.tick:%H:%M:%S}")  # the tick: the time for which it was enqueued


@dataclass
class ReportArgs(Args, kind="report"):
    name: str


@registry.register
class ReportWorker(Worker[ReportArgs]):
    def work(self, job: Job[ReportArgs]) -> str:
        tick = job.tick or job.created_at  # a report can also be enqueued by hand
        return f"{job.args.name} report of {tick:%Y-%m-%d}"  # kept with the job: fastq jobs show ID


BERLIN = Cron("0 9 * * mon-fri", tz="Europe/Berlin")

registry.periodic("pulse", Every(1.0), PulseArgs(), missed="skip")  # one that is late is of no use
registry.periodic("report", BERLIN, ReportArgs("daily"), run_on_start=True)  # and one when this line is new or changes


def main() -> None:
    """Print the next reports."""
    tick = datetime.now(UTC)
    for _ in range(5):
        tick = BERLIN.next_after(tick)
        print(f"report   {tick.astimezone(ZoneInfo(BERLIN.tz)):%a %Y-%m-%d %H:%M %Z}, {tick:%H:%M} UTC")


if __name__ == "__main__":
    main()
