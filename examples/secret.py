"""Encrypted args: a payment whose args are encrypted as a whole, and an order of which the card alone is.

fastq dev examples.secret:registry              works the jobs; brings its own Postgres
python -m examples.secret                       enqueues some of each (in another terminal)

Then: fastq jobs show ID, which shows three dots. The key stands in the code, so that the example runs without a setting; your
program has its keys from its environment (FASTQ_ARGS_KEYS) or from a vault.
"""

import base64
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Job, Registry, Secret, Unique, Worker, use_keys

registry = Registry()

KEY = base64.b64decode("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVpbXF1eX2A=")
use_keys({"2026-11": KEY}, unique=KEY[::-1])


@dataclass
class PaymentArgs(Args, kind="payment", encrypted=True, max_attempts=1):
    card: str
    cents: int


@registry.register
class PaymentWorker(Worker[PaymentArgs]):
    def work(self, job: Job[PaymentArgs]) -> None:
        if job.args.cents < 0:
            raise ValueError(f"card {job.args.card} cannot pay {job.args}")
        print(f"{job.args.cents} cents from a card that ends in {job.args.card[-4:]}")


@dataclass
class TokenArgs(Args, kind="token", unique=Unique("token")):
    user: int
    token: Secret[str]


@registry.register
class TokenWorker(Worker[TokenArgs]):
    def work(self, job: Job[TokenArgs]) -> None:
        print(f"user {job.args.user} has {job.args.token}, of {len(job.args.token.reveal())} characters")


def main() -> None:
    """Enqueue a payment, one that fails, and two jobs with one token, of which the second is not made."""
    with Client(database.url()) as client:
        client.enqueue(PaymentArgs("4111111111111111", 999))
        client.enqueue(PaymentArgs("4111111111111111", -1))
        first = client.enqueue(TokenArgs(7, Secret("s3cr3t-token")))
        second = client.enqueue(TokenArgs(7, Secret("s3cr3t-token")))
        print(f"the same token, the same job: {first == second}")


if __name__ == "__main__":
    main()
