"""Hooks: a tenant that goes along from the enqueue to the work, a measurement of each attempt, and one word about failures.

fastq dev examples.hooks:registry               works the jobs; brings its own Postgres
python -m examples.hooks                        enqueues three invoices (in another terminal)

The hook of the kind is called where the job is enqueued and where it works; the registry's stands around the work of all workers.
"""

import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from examples import database
from fastq import Args, Client, Discard, Enqueuing, Hook, Job, Registry, current_job

MOST = 2
"""The highest number of an invoice that somebody is to have."""

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


class Tenant(Hook):
    def enqueue(self, enqueuing: Enqueuing) -> None:
        enqueuing.carry(tenant=TENANT.get())

    def around(self, job: Job[Any]) -> Iterator[None]:
        token = TENANT.set(job.carried["tenant"])
        try:
            yield
        finally:
            TENANT.reset(token)


class Timing(Hook):
    def around(self, job: Job[Any]) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            print(f"took     {time.monotonic() - began:.6f} s: job {job.id}, attempt {job.attempt}")


registry = Registry(hooks=[Timing()])


@dataclass
class InvoiceArgs(Args, kind="invoice", hooks=[Tenant()]):
    number: int


@registry.worker(timeout=10.0)
def invoice(job: Job[InvoiceArgs]) -> None:
    if job.args.number > MOST:
        raise LookupError("no such customer")
    send(job.args.number)


def send(number: int) -> None:
    job = current_job()
    print(f"{TENANT.get():9} invoice {number} of job {job.id if job else None}")


@registry.on_error
def handle(job: Job[Any], error: BaseException) -> Discard | None:  # noqa: ARG001 - the job is not needed here
    return Discard("nobody to send it to") if isinstance(error, LookupError) else None


def main() -> None:
    """Enqueue three invoices of one tenant."""
    TENANT.set("acme")
    with Client(database.url()) as client:
        client.enqueue_many([InvoiceArgs(number) for number in (1, 2, 3)])
    print("enqueued 3 invoices")


if __name__ == "__main__":
    main()
