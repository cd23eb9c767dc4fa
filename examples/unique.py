"""One job of a key at a time: ten changes of an account make one synchronisation of it.

fastq dev examples.unique:registry              works the jobs; brings its own Postgres
python -m examples.unique                       enqueues thirty changes (in another terminal)

The key is held until the job starts. So a change that comes while it runs makes another job, which sees the change.
"""

from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Unique, Worker

registry = Registry()


@dataclass
class SyncArgs(Args, kind="sync", unique=Unique("account", until="start")):
    account: str
    reason: str


@registry.register
class SyncWorker(Worker[SyncArgs]):
    def work(self, job: Job[SyncArgs]) -> None:
        print(f"sync     {job.args.account}, first asked for by {job.args.reason}")


def main() -> None:
    """Enqueue ten changes of each of three accounts."""
    with Client(database.url()) as client:
        changes = [SyncArgs(account, f"change {number}") for number in range(1, 11) for account in ("ada", "grace", "barbara")]
        told = client.enqueue_many(changes)
    print(f"enqueued {len({*told})} jobs for {len(changes)} changes")


if __name__ == "__main__":
    main()
