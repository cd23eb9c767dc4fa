"""Ask how much a job pays for traces and reports: calls of the function that an executor calls for each job, with the real SDKs.

The difference to `plain` is the price; nothing is sent, so the price of sending comes on top. On a machine that others share
`--benchmark-timer=time.process_time` helps.
"""

from dataclasses import dataclass

import pytest
import sentry_sdk
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from sentry_sdk.transport import Transport

from bench.pieces import claimed
from fastq import Args, Registry, Worker
from fastq.integrations.otel import Tracing
from fastq.integrations.sentry import Sentry
from fastq.work.codec.codec import decode

JOBS = 2_000
NAMES = (
    "plain",
    "tracing without an SDK",
    "tracing",
    "tracing, 1 % sampled",
    "sentry without a client",
    "sentry",
    "sentry, 1 % sampled",
)


class Nowhere(Transport):
    """Sends nothing."""

    def capture_envelope(self, envelope):
        pass


def hooks_of(name):
    """Set the SDK up, and make the hook."""
    if name == "plain":
        return []
    share = 0.01 if "sampled" in name else 1.0
    if name.startswith("tracing"):
        provider = None if "without" in name else TracerProvider(sampler=TraceIdRatioBased(share))
        return [Tracing(tracer_provider=provider, meter_provider=MeterProvider() if provider else None)]
    if "without" not in name:
        options = {"default_integrations": False, "auto_enabling_integrations": False}
        sentry_sdk.init("https://key@sentry.invalid/1", transport=Nowhere, traces_sample_rate=share, **options)
    return [Sentry()]


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_call_with(measured, size, number):
    registry = Registry(hooks=hooks_of(NAMES[number]))

    @dataclass
    class WatchedArgs(Args, kind=f"watched-{number}"):
        number: int

    @registry.register
    class WatchedWorker(Worker[WatchedArgs]):
        def work(self, job):
            pass

    args = [b'{"number":%d}' % one for one in range(size(JOBS))]
    jobs = decode(claimed(f"watched-{number}", args), registry.workers)[0]

    def run_all():
        call = jobs[0].batch.work
        for job in jobs:
            call(job)

    measured(len(jobs), run_all, rounds=10)
    sentry_sdk.get_global_scope().set_client(None)
