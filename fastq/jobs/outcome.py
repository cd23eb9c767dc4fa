"""Make the outcome of an attempt, a value, from the worker's return or exception. The completer writes it.

Made in executors' threads and on the event loop, read by the completer. Attempts that end elsewhere fail there: in the watchdog
(given up), the producer (args that do not fit) and the completer (refused). Plain data, no I/O.

    None      completed, nothing to tell: the common case costs nothing
    Output    completed, with a value to keep
    Snooze    run it again later, no attempt spent        (the user's, from job.py)
    Cancel    end it, with a reason                       (the user's, from job.py)
    Failed    the attempt failed; `delay` until the next one, None: discard it now
    Release   hand it back as if it had never been claimed, after `delay` seconds, or to wait for a worker of its kind

Texts are capped and cleaned here, once, so that Postgres never refuses a batch because of one of them. Making an outcome of a
value or an exception runs code of the user's (`__str__`, `__repr__`, a time zone, `retry_delay`), which may raise anything at
all: it is caught where it is called. It may wait, too: a thread that all jobs depend on calls `failed` alone, without a cause.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.faults import endless_number
from fastq.jobs.job import Cancel, Job, Snooze
from fastq.jobs.retry import MAX_DELAY, default_delay

if TYPE_CHECKING:
    from fastq.jobs.worker import Worker

MAX_TEXT = 16_384
"""Characters kept of a traceback or message: its first and last half. A guess at how much a person reads."""

GAP = 64
"""Characters of MAX_TEXT reserved for the line that says how much was cut: a text with that line is not cut once more."""

MAX_OUTPUT = 262_144
"""Bytes of JSON kept as an output; a larger value belongs into a store of the user's own."""

OURS = ("fastq.work.execute.", "fastq.work.shared.")
"""How the names of the modules begin through which `work` is called."""

_read_raw = msgspec.json.Decoder(msgspec.Raw).decode

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_ESCAPE = re.compile(r"\\(?:u0000|.)")
"""An escape in JSON, taken whole: the backslash of an escaped backslash begins none."""


class Output(msgspec.Struct, frozen=True):
    """A value that the worker returned, as JSON."""

    json: str


class Failed(msgspec.Struct, frozen=True):
    """A failed attempt: the error as a JSON object, and the seconds to wait; None when there is no next attempt."""

    error: str
    delay: float | None


class Release(msgspec.Struct, frozen=True):
    """A job to hand back without charge; after endless seconds: when a process has a worker for its kind."""

    delay: float = 0.0


WAITS = Release(math.inf)
"""The outcome of a job of a kind that has no worker here: the job waits until a process has one (waiting.py)."""


def of_value(value: object) -> tuple[object, str | None]:
    """Return the outcome for the value that `work` returned, and the reason if that value cannot be kept."""
    if value is None:
        return None, None
    if isinstance(value, Snooze):  # another one, here and below: a raised one keeps its traceback, and that the job
        return Snooze(value.seconds), None
    if isinstance(value, Cancel):  # an exception as the reason would keep its traceback, too
        return Cancel(value.reason if type(value.reason) is str else _text_of(value.reason)), None
    try:
        encoded = msgspec.json.encode(value)
        text = encoded.decode()  # msgspec.Raw passes bytes that are no UTF-8
        _read_raw(encoded)  # msgspec.Raw may hold anything; this looks at it and makes nothing of it, in 0.2 us
        fault = endless_number(value) if "null" in text else None
    except BaseException as error:  # noqa: BLE001 - any object may come back, and none of them fails a job that is done
        return None, f"{_name_of(value)} is no JSON value: {_text_of(error)}"
    if fault is not None:
        return None, f"{fault.field or 'the value'}: {fault.reason}"
    if len(encoded) > MAX_OUTPUT:
        return None, f"{len(encoded)} bytes of JSON, {MAX_OUTPUT} are kept at most"
    return Output(_without_nul(clean(text))), None


def unrun(value: object) -> TypeError | None:
    """Return an error if `work` returned a coroutine that has yet to run or a class that has yet to be called, else None.

    A decorator hid its `async`, say, or the call is missing behind `Snooze`.

    It is asked only about values that JSON cannot hold, so that it costs nothing for those that it can.
    """
    if value is Snooze or value is Cancel:
        return TypeError(
            f"work returned the class {value.__name__} itself, expected one of it, such as Snooze(60) or Cancel('why')"
        )
    if not isinstance(value, Awaitable | Generator | AsyncGenerator):
        return None
    if isinstance(value, Coroutine | Generator):
        with suppress(BaseException):  # a foreign one, or one that has begun
            value.close()
    return TypeError(
        f"work returned a {_name_of(value)}, which nobody runs; await it or go through it in work "
        f"(and where work is decorated: the outermost decorator must give an async def)"
    )


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception of the user's, from its `work` on, as much of it as is kept."""
    frames = _without_ours(error)
    try:
        trace = "".join(traceback.format_exception(type(error), error, frames))
    except BaseException as another:  # noqa: BLE001 - it trips over notes that are no list, a SyntaxError without a line ...
        trace = "".join([*traceback.format_tb(frames), f"(the rest could not be written: {_name_of(another)})"])
    return capped(trace)


def told(error: BaseException) -> str:
    """Return the name and the text of an exception of the user's. Its `__str__` may raise too, or return any length."""
    return capped(f"{_name_of(error)}: {_text_of(error)}")


def failed(job: Job[Any], message: str, *, trace: str = "", cause: BaseException | None = None) -> Failed:
    """Return a failure of this attempt; it is the last one if the job's attempts are used up.

    `cause` is the exception that `work` raised: the worker says how long to wait after it. Without a cause no code of the
    user's runs.
    """
    if job.attempt >= job.max_attempts:
        return Failed(error_json(message, trace), None)
    if cause is None or job.batch.worker is None:
        return Failed(error_json(message, trace), default_delay(job.attempt))
    delay, problem = _delay_of(job.batch.worker, job.attempt, cause)
    return Failed(error_json(message, trace + problem), delay)


def attempt_of(job: Job[Any], result: Failed) -> dict[str, object]:
    """Return the fields of an event for a failed attempt: its number, the number allowed, the seconds until the next one."""
    again_in = None if result.delay is None else round(result.delay, 1)
    return {"attempt": job.attempt, "max_attempts": job.max_attempts, "again_in": again_in}


def _delay_of(worker: Worker[Any], attempt: int, cause: BaseException) -> tuple[float, str]:
    """Return the seconds that the worker wants to wait, or the default and the fault in the worker's answer."""
    try:
        delay = float(worker.retry_delay(attempt, cause))
    except BaseException as error:  # noqa: BLE001 - the user's policy must not cost the job, nor the thread
        return default_delay(attempt), f"\nretry_delay failed too, so the default applies: {told(error)}"
    if 0 <= delay <= MAX_DELAY:
        return delay, ""
    wrong = f"\nretry_delay gave {delay!r}, expected seconds from 0 to {MAX_DELAY:.0f}, so the default applies"
    return default_delay(attempt), wrong


def error_json(message: str, trace: str = "") -> str:
    """Return the JSON object that is kept of a failed attempt; the statement adds attempt and time."""
    fields = {"error": capped(message)}
    if trace:
        fields["trace"] = capped(trace)
    return msgspec.json.encode(fields).decode()


def delay_of(result: object) -> float:
    """Return the seconds until a job that an attempt has not ended runs again."""
    if isinstance(result, Snooze):
        return result.seconds
    return (result.delay or 0.0) if isinstance(result, Failed | Release) else 0.0


def error_of(result: object) -> str | None:
    """Return the JSON object that is kept of an attempt that has failed or was cancelled; None if nothing is."""
    if isinstance(result, Failed):
        return result.error or None
    if isinstance(result, Cancel) and result.reason:
        return error_json(f"cancelled: {result.reason}")
    return None


def _name_of(value: object) -> str:
    try:
        return type(value).__qualname__
    except BaseException:  # noqa: BLE001 - a class may have a class of its own, and that may refuse
        return "an object"


def _text_of(value: object) -> str:
    try:
        return f"{value}"
    except BaseException as another:  # noqa: BLE001 - the text must not cost the job its outcome
        return f"(its text could not be made: {_name_of(another)})"


def capped(text: str) -> str:
    """Return as much of a text as is kept, clean."""
    text = clean(text)
    if len(text) <= MAX_TEXT:
        return text
    half = (MAX_TEXT - GAP) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def clean(text: str) -> str:
    """Return the text without the characters that Postgres cannot store: NUL and lone surrogates."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def _without_nul(json: str) -> str:
    """Return the JSON with U+FFFD in its texts instead of NUL, which jsonb cannot store."""
    if "\\u0000" not in json:
        return json
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape[0] == "\\u0000" else escape[0], json)


def _without_ours(error: BaseException) -> Any:
    """Skip our own frames at the top: a trace starts in the user's `work`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(OURS):
        trace = trace.tb_next
    return trace
