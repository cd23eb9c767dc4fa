"""Make texts of errors and values: capped, and clean of the characters that Postgres cannot store. Pure functions.

Used in the executors' threads and on the event loop, where an outcome is made of an exception, and in any other thread that
writes an error: the producer's, the recovery's, a chore's, a singleton's. Texts are capped and cleaned here, once, so that
Postgres never refuses a batch because of one of them.

What a traceback says of a frame depends on its code and its place in it alone, and a kind mostly fails at one place, again and
again. Making those lines takes most of the time of a traceback, so they are kept (`_frames`). Any thread reads and fills that
table, always with the same values; it is emptied when it is full.

`told`, `trace_of`, `name_of` and `text_of` run code of the user's (`__str__`, `__repr__`), which may raise anything at all: it is
caught here. It may wait, too, so a thread that all jobs depend on does not call them.
"""

from __future__ import annotations

import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from types import CodeType, TracebackType

MAX_TEXT = 16_384
"""Characters kept of a traceback or message: its first and last half. A guess at how much a person reads."""

GAP = 64
"""Characters of MAX_TEXT reserved for the line that says how much was cut: a text with that line is not cut once more."""

OURS = ("fastq.work.execute.", "fastq.work.shared.", "fastq.work.codec.timed", "fastq.hooks.", "fastq.joblogs.")
"""How the names of the modules begin through which `work` and hooks are called."""

CONCEALED = "__fastq_concealed__"
"""The attribute of an exception that has the values which are not to be told (hooks/concealing.py)."""

CHAIN = 20
"""Exceptions of a chain that are looked at for it: more than code of the user's puts around one; a chain may have no end."""

FRAMES = 1_024
"""Frames whose lines are kept: 0.4 MB of text. An application has some hundred places at which jobs fail; a guess."""

REPEATED = 3
"""Times that a traceback shows one line of code in a row: what the library then says instead, it says itself."""

_PECULIAR = (BaseExceptionGroup, SyntaxError, NameError, ImportError)
"""Exceptions of which a traceback tells more than their own text, by other rules in each Python."""

_frames: dict[tuple[int, int, int], tuple[CodeType, str]] = {}  # the code is kept, or another one could take its id

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")

_ESCAPE = re.compile(r"\\(?:u0000|.)")
"""An escape in JSON, taken whole: the backslash of an escaped backslash begins none."""


def told(error: BaseException) -> str:
    """Return the name and the text of an exception of the user's. Its `__str__` may raise too, or return any length."""
    return capped(_without_hidden(f"{name_of(error)}: {text_of(error)}", error))


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception of the user's, from its `work` on, as much of it as is kept."""
    frames = _without_ours(error)
    try:
        trace = _plain_trace(error, frames) or "".join(traceback.format_exception(type(error), error, frames))
    except BaseException as another:  # noqa: BLE001 - it trips over notes that are no list, a SyntaxError without a line ...
        trace = "".join([*traceback.format_tb(frames), f"(the rest could not be written: {name_of(another)})"])
    return capped(_without_hidden(trace, error))


def error_json(message: str, trace: str = "", *, died: str = "") -> str:
    """Return the JSON object that is kept of a failed attempt; the statement adds attempt and time.

    `died` says how the process ended under the attempt: "signal 9", "exit code 3".
    """
    fields = {"error": capped(message)}
    if trace:
        fields["trace"] = capped(trace)
    if died:
        fields["died"] = capped(died)
    return msgspec.json.encode(fields).decode()


def in_ascii(text: str) -> str:
    """Return a JSON text with each character beyond ASCII as an escape: it reads the same whatever encoding carries it."""
    return _BEYOND_ASCII.sub(_escaped, text)


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


def without_nul(json: str) -> str:
    """Return the JSON with U+FFFD in its texts instead of NUL, which jsonb cannot store."""
    if "\\u0000" not in json:
        return json
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape[0] == "\\u0000" else escape[0], json)


def name_of(value: object) -> str:
    """Return the name of the class of any object."""
    try:
        return type(value).__qualname__
    except BaseException:  # noqa: BLE001 - a class may have a class of its own, and that may refuse
        return "an object"


def text_of(value: object) -> str:
    """Return the text of any object, or a note that it has none."""
    try:
        return f"{value}"
    except BaseException as another:  # noqa: BLE001 - the text must not cost the job its outcome
        return f"(its text could not be made: {name_of(another)})"


def _without_hidden(text: str, error: BaseException) -> str:
    """Return a text of an exception without the values that its job's args hide, if it is one of such a job."""
    one: BaseException | None = error
    for _ in range(CHAIN):
        if one is None:
            break
        for value in getattr(one, CONCEALED, ()):
            text = text.replace(value, "•••")
        one = one.__cause__ or one.__context__
    return text


def _without_ours(error: BaseException) -> Any:
    """Skip our own frames at the top: a trace starts in the user's `work`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(OURS):
        trace = trace.tb_next
    return trace


def _plain_trace(error: BaseException, frames: TracebackType | None) -> str:
    """Return the very text that the library makes of an exception, of kept lines; "" where it is not one of the plain ones."""
    chained = error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
    if chained or frames is None or isinstance(error, _PECULIAR) or hasattr(sys, "tracebacklimit"):
        return ""
    lines = ["Traceback (most recent call last):\n"]
    last: object = None
    repeated = 0
    frame: TracebackType | None = frames
    while frame is not None:
        code, number = frame.tb_frame.f_code, frame.tb_lineno
        repeated = repeated + 1 if (code, number) == last else 1
        if repeated > REPEATED:
            return ""
        last = code, number
        key = id(code), frame.tb_lasti, number
        _, text = _frames.get(key) or _keep(key, code, frame)
        lines.append(text)
        frame = frame.tb_next
    return "".join([*lines, *traceback.format_exception_only(error)])


def _keep(key: tuple[int, int, int], code: CodeType, frame: TracebackType) -> tuple[CodeType, str]:
    """Make the lines of a frame."""
    if len(_frames) >= FRAMES:
        _frames.clear()
    _frames[key] = made = code, "".join(traceback.format_tb(frame, limit=1))
    return made


def _escaped(found: re.Match[str]) -> str:
    """Write a character as JSON does in ASCII; it stands in a string, for nothing else in JSON is not ASCII."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
