"""Serve a page: its contents as a whole page, or as a stream of them for the script.

Runs in the event loop that serves; the contents are read in a thread, once for all viewers (live/). A page whose contents
cannot be read says why, in the same place, and a stream goes on trying: a database that is away comes back.

Invariant: no error of ours shows a traceback or the database's address; errors of the database are shown by their first line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from fastq.errors import DatabaseUnavailable, FastqError, OptionError
from fastq.events import LOGGER
from fastq.masked import masked
from fastq.postgres import db, sqlstate
from fastq.web.live import following
from fastq.web.routing.view import Elsewhere, Missing, View

if TYPE_CHECKING:
    from starlette.types import Send

    from fastq.web.routing.desk import Arrival, Desk

STREAM = "text/event-stream"
WRONG, REFUSED, NOT_FOUND, BROKEN, AWAY = 400, 403, 404, 500, 503

STREAM_HEADERS = {"x-accel-buffering": "no"}
"""For a proxy that would keep a stream back until it has enough of it."""


class _Streamed(StreamingResponse):
    """A stream that ends in its time, also if the browser reads nothing: the server waits then, and it cannot end by itself."""

    async def stream_response(self, send: Send) -> None:
        """Send the stream; give it up when its time is over, so that its place is free for another."""
        with suppress(TimeoutError):
            async with asyncio.timeout(following.LONGEST + following.SENDING):
                await super().stream_response(send)


class Page:
    """A page of a dashboard."""

    def __init__(self, desk: Desk, view: View) -> None:
        self._desk, self._view = desk, view
        self.needs, self.also = view.needs, ()
        self.path = view.path
        self.methods = frozenset({"GET", "HEAD"})

    async def __call__(self, arrival: Arrival) -> Response:
        """Answer a request."""
        asks = arrival.request
        if self._view.every is not None and asks.method == "GET" and STREAM in asks.headers.get("accept", ""):
            return self._stream(arrival)
        try:
            content = await self._content(arrival)
        except Elsewhere as other:
            return self._desk.redirect(arrival, other.path)
        except Exception as error:  # noqa: BLE001 - each of them becomes a page
            return problem(self._desk, arrival, error, self._view.title)
        live = arrival.base + arrival.local if self._view.every is not None else ""
        return self._desk.page(self._view.title, arrival, self._view.template, content, live=live)

    def _stream(self, arrival: Arrival) -> Response:
        view, desk = self._view, self._desk
        key = (self._key(arrival), arrival.viewer.may, arrival.base)
        if desk.streams.full(key):
            return Response(status_code=AWAY, headers={"retry-after": "60"})

        async def render() -> str | None:
            try:
                return desk.fragment(view, arrival, await self._content(arrival))
            except Elsewhere:
                return None
            except Exception as error:  # noqa: BLE001 - the stream tells it, and goes on
                _, told = _told(error)
                return desk.fragment(PROBLEM, arrival, {"reason": told, "title": view.title})

        def pause() -> float:
            return max(view.every or 0.0, min(following.SELDOM, following.TIMES * desk.shared.took(self._key(arrival))))

        return _Streamed(desk.streams.follow(key, render, pause), media_type=STREAM, headers=STREAM_HEADERS)

    def _key(self, arrival: Arrival) -> tuple[Any, ...]:
        return (self._view.path, tuple(sorted(arrival.path.items())), arrival.query)

    async def _content(self, arrival: Arrival) -> Mapping[str, Any]:
        desk, load = self._desk, self._view.load
        found: Mapping[str, Any] = await desk.shared.content(
            self._key(arrival), lambda connection: load(desk.visit(connection, arrival))
        )
        return found


PROBLEM = View("/problem", "Not now", "overview.read", "problem.html", lambda _: {})
"""Stands for a page whose contents cannot be read: its template alone is used."""


def problem(desk: Desk, arrival: Arrival, error: Exception, title: str) -> Response:
    """Return a page that says why there is no other."""
    status, told = _told(error)
    return desk.page(title, arrival, PROBLEM.template, {"reason": told}, status=status)


def _told(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence for an error."""
    if isinstance(error, Missing):
        return NOT_FOUND, str(error)
    if isinstance(error, OptionError):
        return WRONG, str(error)
    if isinstance(error, DatabaseUnavailable):
        return AWAY, masked(f"the database is away: {error}")
    if isinstance(error, FastqError):
        return AWAY, masked(str(error))
    if isinstance(error, db.Error):
        if sqlstate.too_slow(error):
            return AWAY, "the database took too long for this page: narrow it by a filter, or try again"
        if sqlstate.forbidden(error):
            return AWAY, f"the role of the dashboard may not do this ({db.first_line(error)}): docs/postgres.md, Roles"
        return AWAY, masked(f"the database refused: {db.first_line(error)}")
    LOGGER.error("a page of the dashboard raised", exc_info=error)
    return BROKEN, "this page broke: the log of the program that serves it has the traceback"
