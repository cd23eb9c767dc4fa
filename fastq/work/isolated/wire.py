"""The messages between a worker process and the processes of isolated jobs, and the records between it and its nursery.

Written and read by the thread that executes the job (apart.py), by the job's process (child.py) and by the nursery (nursery.py).
A message is four bytes with a length and a JSON object; a record has a fixed size, so that no reader of one ever waits for the
rest. Nothing here is pickled: the objects of a user never leave their process.

Invariant: a reader sees whole messages alone. A process that is killed in the middle of a message leaves a piece behind, and
nobody reads it. The module deliberately opens no socket.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fastq.joblogs import streams
from fastq.jobs.job import STOPPING
from fastq.jobs.outcome import Fate

if TYPE_CHECKING:
    from fastq.jobs.job import Job

_LENGTH = struct.Struct("<I")

FORK, TELL, KILL, LOOK = 1, 2, 3, 4
"""What a worker process asks of its nursery: a process for a job, whose number follows; a signal to it, that a word has come; its
end; another signal, upon which it writes down where it is."""

ORDER = struct.Struct("<IQ")
"""One of these, and the number of the attempt that it is about: an order for one that has ended does nothing."""

DEATH = struct.Struct("<QiiQ")
"""What the nursery answers with: the number of the attempt, the status as `waitpid` gives it, the error number of a fork that
failed (else 0), and the most bytes of memory that the process had."""


class Request(msgspec.Struct, frozen=True):
    """An attempt at a job: all that its process is told."""

    id: int
    attempt: int
    kind: str
    queue: str
    claim: int
    priority: int
    max_attempts: int
    timeout: float | None
    created_at: datetime
    tags: tuple[str, ...]
    meta: dict[str, Any]
    now: datetime | None  # by the database's clock; None: no rule around the job asks for it
    stopping: bool
    args: msgspec.Raw
    log_level: str | None  # of the records that are kept with the job; None: neither they nor prints are


class Order(msgspec.Struct, frozen=True):
    """A word to the process of a job."""

    late: bool = False  # the job has taken too long, else it is cancelled
    text: str = ""
    leaving: bool = False  # the worker process does not wait for it: it is handed back
    stopping: bool = False  # no end of the job: the worker process was told to stop


class Noted(msgspec.Struct, frozen=True, tag="note"):
    """How far the job is."""

    fraction: float
    text: str


class Said(msgspec.Struct, frozen=True, tag="event"):
    """An event that was emitted in the job's process."""

    name: str
    level: int
    fields: dict[str, Any]


class Transacts(msgspec.Struct, frozen=True, tag="transacts"):
    """The job has begun a transaction in which it may end."""


class Allowed(msgspec.Struct, frozen=True, tag="allowed"):
    """The job has got on, so its row allows attempts up to this one."""

    attempts: int


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """The attempt has ended like this."""

    fate: Fate
    endless: bool = False  # the fate's delay is: JSON has no such number

    def whole(self) -> Fate:
        """Return the fate as it was told."""
        return replace(self.fate, delay=math.inf) if self.endless else self.fate


def settled(fate: Fate) -> Settled:
    """Make a message of a fate."""
    return Settled(replace(fate, delay=0.0), endless=True) if fate.delay == math.inf else Settled(fate)


class Logged(msgspec.Struct, frozen=True, tag="log"):
    """A record of the job's; or, without a level, a piece of its prints."""

    source: str
    text: str
    level: str = ""
    at: float = 0.0


Message = Noted | Said | Transacts | Allowed | Settled | Logged

_read_message = msgspec.json.Decoder(Message).decode
_read_request = msgspec.json.Decoder(Request).decode
_read_order = msgspec.json.Decoder(Order).decode
_write = msgspec.json.Encoder(enc_hook=str).encode


def asked(job: Job[Any]) -> Request:
    """Write down all that the process of a job has to know."""
    batch: Any = job.batch
    row = job.row
    return Request(
        id=job.id,
        attempt=job.attempt,
        kind=batch.kind,
        queue=batch.queue,
        claim=batch.claim,
        priority=batch.priorities[row],
        max_attempts=batch.max_attempts[row],
        timeout=batch.timeout,
        created_at=batch.created_at(row),
        tags=batch.tags(row),
        meta=dict(batch.meta(row)),
        now=batch.now() if batch.around else None,
        stopping=STOPPING.is_set(),
        args=msgspec.Raw(batch.worker.kind.codec.encode(job.args)),
        log_level=streams.level(),
    )


def packed(message: Request | Order | Message) -> bytes:
    """Write a message as it is sent."""
    text = _write(message)
    return _LENGTH.pack(len(text)) + text


def request_of(text: bytes) -> Request:
    """Read a request."""
    return _read_request(text)


def order_of(text: bytes) -> Order:
    """Read an order."""
    return _read_order(text)


def message_of(text: bytes) -> Message:
    """Read a message of a job's process."""
    message: Message = _read_message(text)
    return message


class Pieces:
    """The bytes that have come through one socket, in pieces of any size. One thread uses it."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, piece: bytes) -> Iterator[bytes]:
        """Take a piece; yield the texts of the messages that are whole by now."""
        self._kept += piece
        while len(self._kept) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._kept)[0]
            if len(self._kept) < end:
                return
            text, self._kept = self._kept[_LENGTH.size : end], self._kept[end:]
            yield text


class Death(NamedTuple):
    """The end of a job's process, as the nursery has seen it."""

    number: int
    status: int
    failure: int
    memory: int
