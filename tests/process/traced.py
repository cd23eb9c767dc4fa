"""An application that is watched by OpenTelemetry and Sentry at once; a folder, named by TRACES, has what they would send.

Run as a program it enqueues jobs of each form, in a span and a transaction. Nothing is sent before the end of a process: the one
waits a minute, the other until it is told to.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from sentry_sdk.transport import Transport

from fastq import Args, Client, Job, Registry
from fastq.integrations.otel import Tracing
from fastq.integrations.sentry import Sentry

MINUTE = 60_000  # ms
FOLDER = Path(os.environ.get("TRACES", os.devnull))


class Files(Transport):
    """Appends to a file what would be sent, when told to send it."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._kept: list[str] = []

    def capture_envelope(self, envelope: Any) -> None:
        self._kept += [item.payload.get_bytes().decode() + "\n" for item in envelope.items]

    def flush(self, timeout: float, callback: Any = None) -> None:
        with (FOLDER / "sentry").open("a") as file:
            file.write("".join(self._kept))
        self._kept.clear()


def spans_file() -> Any:
    """Open the file of the spans."""
    return (FOLDER / "otel").open("a", buffering=1)


if FOLDER.is_dir():
    exporter = ConsoleSpanExporter(out=spans_file(), formatter=lambda span: span.to_json(indent=None) + "\n")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=MINUTE))
    trace.set_tracer_provider(provider)
    sentry_sdk.init("https://key@sentry.invalid/1", transport=Files, traces_sample_rate=1.0, auto_enabling_integrations=False)

HOOKS = [Tracing(), Sentry()]
registry = Registry(hooks=HOOKS)


@dataclass
class Threaded(Args, kind="threaded", queue="default"):
    fails: bool = False


@dataclass
class Awaited(Args, kind="awaited"):
    fails: bool = False


@registry.worker(timeout=10.0, max_attempts=2, retry_delay=lambda attempt, error: 0.01)
def threaded(job: Job[Threaded]) -> None:
    if job.args.fails:
        raise LookupError("no such user")


@registry.worker(timeout=10.0, max_attempts=2, retry_delay=lambda attempt, error: 0.01)
async def awaited(job: Job[Awaited]) -> None:
    if job.args.fails:
        raise LookupError("no such user")


def main() -> None:
    """Enqueue."""
    with (
        trace.get_tracer("program").start_as_current_span("request"),
        sentry_sdk.start_transaction(name="request"),
        Client(hooks=HOOKS) as client,
    ):
        for fails in (False, True):
            client.enqueue(Threaded(fails), max_attempts=2)
            client.enqueue(Awaited(fails), max_attempts=2)


if __name__ == "__main__":
    main()
