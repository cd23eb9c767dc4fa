"""Send the log to stderr: a short line for people, or one JSON object a line for machines.

Set up in the main thread of the command and of each worker process, once the application is imported, because the application's
own configuration comes first: a `fastq` logger that has handlers stays as it is, and the root logger is touched only when it
has none (then the application's own records come out in the same form).

Invariant: one record of ours is one write, and one line but for a traceback (indented, for people; a field of the object, for
machines), so that the lines of several processes do not mix. A record is written in the thread that reports it. Nothing is kept
here but the handler, which is `logging`'s. It deliberately knows no files and no rotation: the program that runs the supervisor
has them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import TYPE_CHECKING, TextIO

from fastq.events import LOGGER, Event

if TYPE_CHECKING:
    from fastq.config import Config


LONGEST = 32_768
"""Characters of one value in JSON: twice the kept length of an error's text, the longest value that is expected there."""

OF_A_JOB = ("job_id", "job_kind", "job_queue", "job_attempt")
"""The fields that logs.py puts on the records of jobs; a record in JSON shows them."""

_SURROGATE = re.compile(r"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)")
"""An escape of JSON: a pair of surrogates, a lone one (which many readers refuse, jq with all that follows), or any other."""


class TextFormatter(logging.Formatter):
    """Write `14:03:22.123 info  line`; records that are not ours name their logger."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; a traceback follows on lines of its own."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        source = "" if record.name == LOGGER.name else f"{record.name}: "
        line = f"{clock}.{int(record.msecs):03d} {record.levelname.lower():7s} {source}{record.getMessage()}"
        if isinstance(record.msg, Event):
            line += record.msg.below()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Write one JSON object; the fields of an event are keys of it, after `time`, `level`, `pid` and `event`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record, pure ASCII."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head: dict[str, object] = {
            "time": f"{clock}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "pid": record.process,
        }
        if isinstance(record.msg, Event):
            head["event"] = record.msg.name
            fields = {name: _cut(value) for name, value in record.msg.fields.items()}
            head = {**head, **fields, **head}  # ours come first, and win
        else:
            head |= {"logger": record.name, "message": record.getMessage()}
            head |= {field: value for field in OF_A_JOB if (value := record.__dict__.get(field)) is not None}
        if record.exc_info:
            head["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(head, default=str)
        return _SURROGATE.sub(lambda found: r"\ufffd" if found[1] else found[0], line) if r"\ud" in line else line


def _cut(value: object) -> object:
    """Return a value; a long text is cut to LONGEST."""
    return f"{value[:LONGEST]}..." if isinstance(value, str) and len(value) > LONGEST else value


class _OurHandler(logging.StreamHandler[TextIO]):
    """Mark the handler as ours, so that a second `set_up` replaces it instead of adding one."""


def set_up(config: Config) -> None:
    """Log at the configured level and in the configured form to stderr. May be called again."""
    for logger in (LOGGER, logging.getLogger()):
        for handler in [handler for handler in logger.handlers if isinstance(handler, _OurHandler)]:
            logger.removeHandler(handler)
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    handler = _OurHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if config.log_json else TextFormatter())
    LOGGER.setLevel(level)
    if not LOGGER.handlers:
        LOGGER.addHandler(handler)
        LOGGER.propagate = False
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(handler)
        root.setLevel(max(level, logging.INFO))  # "debug" means ours, not that of every library
