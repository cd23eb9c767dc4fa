"""Hold what all pages of one dashboard share, and put its pages around contents: menu, name, messages.

Made once for a dashboard, by the thread that makes it, and used in the event loops that serve. It owns the source of
connections, the shared contents and the streams; all else never changes.

It deliberately keeps no viewer: each request is asked anew for its viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from fastq.enqueue.client import Client
from fastq.web.live.following import Streams
from fastq.web.live.sharing import Shared
from fastq.web.live.source import Source
from fastq.web.look.rendering import address, render
from fastq.web.routing.view import View, Visit
from fastq.web.security.redacting import Redact, Redaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.web.security.permissions import Viewer

TOLD, TOLD_SECONDS, TOLD_MOST = "fastq_told", 60, 3_000
"""The cookie with the result of an action for the next page, how long it lasts, and its bytes: browsers take some 4,000."""


class Arrival(NamedTuple):
    """A request of a viewer."""

    request: Request
    viewer: Viewer
    path: Mapping[str, Any] = {}  # the parts of the address

    @property
    def base(self) -> str:
        """Return the address of the dashboard itself, without a slash at its end."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    @property
    def local(self) -> str:
        """Return the path below the dashboard. A server in front may have taken our own part off already."""
        path = str(self.request.scope["path"])
        return path[len(self.base) :] if self.base and path.startswith(self.base) else path

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """Return the parameters in the order of their names: an order of their own makes no other page."""
        return tuple(sorted(self.request.query_params.multi_items()))

    @property
    def secure(self) -> bool:
        """Tell whether the browser speaks TLS, as far as this server knows."""
        return self.request.url.scheme == "https"


class Desk:
    """The shared parts of a dashboard."""

    def __init__(self, config: Config, redact: Redact | None, views: Sequence[View], origins: Sequence[str]) -> None:
        self.config = config
        self.source = Source(config)
        self.shared = Shared(self.source)
        self.streams = Streams()
        self.redaction = Redaction(redact)
        self.origins = frozenset(origins)
        self._menu = [view for view in views if view.menu]

    def visit(self, connection: Connection, arrival: Arrival, form: Mapping[str, str] | None = None, by: str = "") -> Visit:
        """Make the argument of a page's function; of an action's with the name of the viewer."""
        return Visit(connection, self.source.config, self.redaction, self._client, arrival.path, arrival.query, form or {}, by)

    def fragment(self, view: View, arrival: Arrival, content: Mapping[str, Any]) -> str:
        """Render the contents of a page alone."""
        return render(view.template, {**self._common(arrival), "title": view.title, **content})

    def page(
        self, title: str, arrival: Arrival, template: str, content: Mapping[str, Any], *, status: int = 200, live: str = ""
    ) -> Response:
        """Return a whole page; `live` is the path under which the script finds its stream."""
        told = unquote(arrival.request.cookies.get(TOLD, ""))
        values = {
            **self._common(arrival),
            "title": title,
            **content,
            "template": template,
            "live": live,
            "told": told,
            "menu": [one for one in self._menu if arrival.viewer.has(one.needs)],
            "here": arrival.local or "/",
            "instance": self.config.instance_name,
            "colour": self.config.instance_colour,
        }
        answer = HTMLResponse(render("layout.html", values), status)
        if told:
            answer.delete_cookie(TOLD, path=arrival.base or "/")
        return answer

    def redirect(self, arrival: Arrival, path: str, told: str = "") -> Response:
        """Return the way to another page, with a message for it."""
        answer = RedirectResponse(arrival.base + path, 303)
        if told:
            answer.set_cookie(
                TOLD,
                quote(told, safe="")[:TOLD_MOST],
                max_age=TOLD_SECONDS,
                path=arrival.base or "/",
                httponly=True,
                samesite="strict",
                secure=arrival.secure,
            )
        return answer

    def _common(self, arrival: Arrival) -> dict[str, Any]:
        """Return the values that each template may use."""
        base = arrival.base

        def link(path: str, /, **query: Any) -> str:
            return base + address(path, **query)

        return {"base": base, "link": link, "may": arrival.viewer.has, "viewer": arrival.viewer, "now": datetime.now(UTC)}

    def _client(self) -> Client:
        return self.source.client


Handler = Callable[[Arrival], Any]
