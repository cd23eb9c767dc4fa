"""Put the dashboard together, and let in the viewers that the application names: an ASGI application.

Made by the thread that mounts it; runs in the event loops that serve. For each request, in this order: the auth function names
its viewer, the address is looked up, the permission of the page is asked for, and a request that changes something must come
from our own pages. Only then does a page see it.

Invariants: nothing is served without an auth function, not even the style sheet; each route has a permission (routing/view.py);
each answer has the headers of security/headers.py, errors and refusals too. It deliberately has no session, no users and no
passwords: the application has them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import compile_path

from fastq.config import Config, settled
from fastq.errors import ConfigError, OptionError
from fastq.events import LOGGER, emit
from fastq.web import cluster, pages
from fastq.web.look.rendering import STATIC
from fastq.web.routing.acting import Doing
from fastq.web.routing.desk import Arrival, Desk
from fastq.web.routing.serving import NOT_FOUND, REFUSED, Page
from fastq.web.routing.view import View
from fastq.web.security import headers
from fastq.web.security.origins import SAFE, refusal
from fastq.web.security.permissions import ALWAYS, Viewer
from fastq.web.security.redacting import Redact

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from fastq.enqueue.client import Client
    from fastq.enqueue.client_async import AsyncClient

Answer: TypeAlias = Viewer | Response | None
Auth: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]
"""The application's function: it returns the viewer of a request, None for nobody, or an answer of its own, such as a
redirect to its login page. It may be `async`, and may raise Starlette's (FastAPI's) HTTPException."""

NOT_ALLOWED = 405

CONTENTS = (*pages.CONTENTS, *cluster.CONTENTS)
"""The pages and actions, in the order of the menu."""


def dashboard(
    client_or_url: Client | AsyncClient | Config | str | None = None,
    *,
    auth: Auth,
    redact: Redact | None = None,
    name: str | None = None,
    colour: str | None = None,
    origins: Sequence[str] = (),
) -> Dashboard:
    """Make the dashboard, an ASGI application to be mounted or served.

    The first argument says which database: that of a client, of a URL, or without one of FASTQ_DATABASE_URL. `auth` is called
    with each request (starlette.requests.Request) and returns a `Viewer`, or None: then nothing is shown.
    `redact(kind, what, value)` returns the value to show for args, outputs, values of steps, errors and lines of logs. `name` and
    `colour` tell this cluster from others (FASTQ_INSTANCE_NAME, FASTQ_INSTANCE_COLOUR). `origins` are further addresses of the
    browser's, such as "https://ops.example.org", where a proxy hides that name from this server.
    """
    if not callable(auth):
        raise OptionError(
            f"auth={auth!r}: expected a function that is given a request and returns a fastq.web.Viewer, or None for nobody; "
            "the dashboard is closed without one (docs/dashboard.md has recipes)"
        )
    if isinstance(client_or_url, str):
        config = Config.load(database_url=client_or_url)
    elif client_or_url is None or isinstance(client_or_url, Config):
        config = settled(client_or_url)
    else:
        config = client_or_url.config
    if not config.database_url:
        raise ConfigError("the dashboard needs a database: set FASTQ_DATABASE_URL, or give a client or a URL")
    return Dashboard(settled(config, instance_name=name, instance_colour=colour), auth, redact, origins)


class Dashboard:
    """The dashboard as an ASGI application. `routes` lists its pages and actions with their permissions."""

    def __init__(self, config: Config, auth: Auth, redact: Redact | None, origins: Sequence[str]) -> None:
        self._auth = auth
        self._desk = Desk(config, redact, [one for one in CONTENTS if isinstance(one, View)], origins)
        self.routes = [
            _Static(),
            *(Page(self._desk, one) if isinstance(one, View) else Doing(self._desk, one) for one in CONTENTS),
        ]
        self._paths = [(*compile_path(route.path), route) for route in self.routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; nothing but HTTP is spoken."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            request = Request(scope, receive)
            answer = await self._answer(request)
            for name, value in {**headers.HEADERS, **headers.UNSTORED}.items():
                answer.headers.setdefault(name, value)
            await answer(scope, receive, send)

    def close(self) -> None:
        """Close the connections; used again, it opens others."""
        self._desk.source.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message: Message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _answer(self, request: Request) -> Response:
        try:
            viewer = await self._viewer(request)
        except HTTPException as refused:
            return PlainTextResponse(f"{refused.detail}\n", refused.status_code, refused.headers)
        except Exception:  # noqa: BLE001 - of the application's; nobody is let in by it
            LOGGER.exception("the auth function of the dashboard raised")
            return PlainTextResponse("the auth function raised: see the log\n", REFUSED)
        if isinstance(viewer, Response):
            return viewer
        if viewer is None:
            return PlainTextResponse("you may not see this dashboard\n", REFUSED)
        return await self._routed(request, viewer)

    async def _viewer(self, request: Request) -> Answer:
        answer = self._auth(request)
        found: Any = await answer if inspect.isawaitable(answer) else answer
        if found is None or isinstance(found, Viewer | Response):
            return found
        raise OptionError(f"auth returned {type(found).__name__}: expected a fastq.web.Viewer, a response, or None")

    async def _routed(self, request: Request, viewer: Viewer) -> Response:
        arrival = Arrival(request, viewer)
        if not (path := arrival.local):
            return RedirectResponse(f"{arrival.base}/", 303)
        for pattern, _, convertors, route in self._paths:
            if found := pattern.fullmatch(path):  # `$` alone lets a line end pass
                with suppress(ValueError):  # a number with more digits than Python reads
                    parts = {name: convertors[name].convert(value) for name, value in found.groupdict().items()}
                    return await self._allowed(route, Arrival(request, viewer, parts))
        told = "there is no such page: the menu has those that there are"
        return self._desk.page("Not found", arrival, "problem.html", {"reason": told}, status=NOT_FOUND)

    async def _allowed(self, route: Page | Doing | _Static, arrival: Arrival) -> Response:
        request, viewer = arrival.request, arrival.viewer
        if request.method not in route.methods:
            return PlainTextResponse("this page knows no such method\n", NOT_ALLOWED, {"allow": ", ".join(sorted(route.methods))})
        if lacks := next((needs for needs in (route.needs, *route.also) if not viewer.has(needs)), None):
            emit("web.refused", level=logging.WARNING, by=viewer.name, path=route.path, why=f"no permission {lacks}")
            told = f"you lack the permission {lacks}"
            return self._desk.page("Not allowed", arrival, "problem.html", {"reason": told}, status=REFUSED)
        if request.method not in SAFE and (why := refusal(request, self._desk.origins)):
            emit("web.refused", level=logging.WARNING, by=viewer.name, path=route.path, why=why)
            return PlainTextResponse(f"refused: {why}\n", REFUSED)
        return await route(arrival)


class _Static:
    """The script, the style sheet and the icon."""

    path = "/static/{name}"
    needs = ALWAYS
    also = ()
    methods = frozenset({"GET", "HEAD"})

    async def __call__(self, arrival: Arrival) -> Response:
        """Answer a request."""
        found = STATIC.get(arrival.path["name"])
        if found is None:
            return PlainTextResponse("there is no such file\n", NOT_FOUND)
        return Response(found.body, media_type=found.type, headers=headers.STORED)
