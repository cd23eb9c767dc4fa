"""Rates: an API takes ten calls in two seconds from each account, and now and then answers that this was one too many.

fastq dev examples.rates:registry               works the jobs; brings its own Postgres
python -m examples.rates                        enqueues calls of two accounts (in another terminal)

Meanwhile, in a third: fastq gates list, fastq jobs why ID, fastq gates set sms-api 2, fastq gates remove sms-api.
"""

import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Rate, RateLimited, Registry, Worker

registry = Registry()
SMS_API = Rate("sms-api", at_most=10, per=2, burst=2, by="account")
refused: set[int] = set()


@dataclass
class SmsArgs(Args, kind="sms", gates=[SMS_API]):
    account: str
    unlucky: bool = False


@registry.register
class SmsWorker(Worker[SmsArgs]):
    def work(self, job: Job[SmsArgs]) -> RateLimited | float:
        if job.args.unlucky and job.id not in refused:  # as if the API had answered 429 with Retry-After: 1
            refused.add(job.id)
            return RateLimited(after=1)
        print(f"sent for {job.args.account}")
        return time.time()


def main() -> None:
    """Enqueue twelve calls for each of two accounts, one of which is refused at first."""
    with Client(database.url()) as client:
        client.spend(SMS_API, "Ada", weight=3)  # somebody tries the API by hand
        client.enqueue_many([SmsArgs(account, unlucky=not n) for n in range(12) for account in ("Ada", "Grace")])
        print(client.why(client.enqueue(SmsArgs("Ada"))))


if __name__ == "__main__":
    main()
