"""Send the changes of pages to the browsers that show them: server-sent events, one reader for all browsers that show the same.

Runs in the event loop that serves. A `Streams` has a channel for each content that somebody looks at; the channel's task reads
it every few seconds (sharing.py sees to it that this costs one reading), renders it, and hands the text to each listener if it
has changed. The task begins with the first listener and ends with the last. Each listener has room for one text: a slow browser
misses some in between, and holds up nobody.

Invariants: a text is sent only if it differs from the last one by more than the words for how long ago something was; a stream
ends after LONGEST seconds, and the browser asks for another, which is when its rights are looked at again. The generator itself
stands still while the server waits for a browser that reads nothing, so the answer around it has a limit of its own
(routing/serving.py).
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Hashable

    from fastq.web.live.sharing import Key

KEPT_ALIVE = 15.0
"""Seconds without a change after which an empty line is sent: proxies close connections that are silent for a minute."""

LONGEST = 300.0
"""Seconds that a stream lasts: how long a viewer without rights any more goes on seeing a page. A guess."""

SENDING = 15.0
"""Seconds beyond that for the last bytes to go, as long as the line may be still; a browser that reads nothing is given up."""

MOST = 500
"""Streams at once; further ones are refused, and their browsers ask page by page."""

CONTENTS = 100
"""Different contents that are followed at once, of a few milliseconds every few seconds each: a team has as many open. Without a
bound one viewer with 500 addresses would keep the threads of the source busy, and all others waiting for half a minute."""

AGAIN = b"retry: 5000\n\n"
"""Has a browser ask again in five seconds, by when the streams before it are counted, and it is refused or let in."""

TIMES, SELDOM = 100, 30.0
"""Times as long as a content took to read until it is read again, and the seconds that are enough: so a page that is open costs a
hundredth of a core, however many jobs there are, but one that takes a third of a second or longer."""

AGES = re.compile(r"(<time\b[^>]*>)[^<]*")
"""The words between the tags of a time, which the browser itself keeps true."""


class _Channel:
    """The browsers that show one content.

    It belongs to the event loop that serves, which alone writes it: `listeners` by each stream, `last` and `task` by the
    streams and the channel's task.
    """

    def __init__(self) -> None:
        self.listeners: set[asyncio.Queue[str | None]] = set()
        self.last: tuple[str, str] | None = None  # what was compared, what was sent
        self.task: asyncio.Task[None] | None = None

    def tell(self, text: str | None) -> None:
        """Hand a text to each listener in place of one that it has not taken yet; None: the stream ends."""
        for listener in self.listeners:
            if listener.full():
                listener.get_nowait()
            listener.put_nowait(text)


class Streams:
    """The streams of a dashboard, by event loop."""

    def __init__(self) -> None:
        self._channels: dict[tuple[int, Hashable], _Channel] = {}  # each event loop changes its own keys

    def full(self, key: Key) -> bool:
        """Tell whether no further stream of this content is to be begun."""
        channels = [*self._channels.values()]
        if len(channels) >= CONTENTS and (id(asyncio.get_running_loop()), key) not in self._channels:
            return True
        return sum(len(channel.listeners) for channel in channels) >= MOST

    async def follow(
        self, key: Key, render: Callable[[], Awaitable[str | None]], pause: Callable[[], float]
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a stream; `render` gives the text of now, None when there is nothing more to come."""
        if self.full(key):  # hundreds may have been let in at once, before the first of them came here
            yield AGAIN
            return
        place = (id(asyncio.get_running_loop()), key)
        channel = self._channels.setdefault(place, _Channel())
        listener: asyncio.Queue[str | None] = asyncio.Queue(1)
        channel.listeners.add(listener)
        end = time.monotonic() + LONGEST
        try:
            if channel.last is not None:
                yield event(channel.last[1])
            if channel.task is None:
                channel.task = asyncio.ensure_future(self._read(channel, render, pause))
            while (left := end - time.monotonic()) > 0:
                try:
                    text = await asyncio.wait_for(listener.get(), min(KEPT_ALIVE, left))
                except TimeoutError:
                    yield b":\n\n"
                    continue
                if text is None:
                    break
                yield event(text)
        finally:
            channel.listeners.discard(listener)
            if not channel.listeners:
                if channel.task is not None:
                    channel.task.cancel()
                if self._channels.get(place) is channel:
                    del self._channels[place]

    async def _read(self, channel: _Channel, render: Callable[[], Awaitable[str | None]], pause: Callable[[], float]) -> None:
        try:
            while True:
                text = await render()
                if text is None:
                    break
                compared = AGES.sub(r"\1", text)
                if channel.last is None or compared != channel.last[0]:
                    channel.last = (compared, text)
                    channel.tell(text)
                await asyncio.sleep(pause())
        finally:
            channel.task = None
            channel.tell(None)


def event(text: str) -> bytes:
    """Write a text as one server-sent event. A carriage return ends a line there, too: left in, a value could end the event."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = "\n".join(f"data: {line}" for line in plain.split("\n"))
    return f"{lines}\n\n".encode()
