"""Let in the person who has started `fastq web --local`, and nobody else on the machine or in his browser.

An auth function as the application's own would be, called in the event loop that serves. The command prints an address with a
token, which is taken once and then becomes a cookie that scripts cannot read and other sites cannot have sent. Another user of
the machine, for one, has neither.

A page of the web may give its own name the address 127.0.0.1, and its script could then read the answers as its own site's. So
the Host header is compared with the names of this machine's loopback, before anything else.

Made by the main thread of the command; its event loop alone calls it, and writes `token` (None once it is taken). All else never
changes.

Invariant: a token lets in one browser. It deliberately keeps nothing on disk: with the command ends the access.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from fastq.web.security.origins import same_token
from fastq.web.security.permissions import READER, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of the loopback, as a browser writes them in the Host header."""

TOKEN = "token"  # noqa: S105 - the name of the parameter
SECRET_BYTES = 32
"""Random bytes of the token and of the cookie."""

WELCOME = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>fastq</title><meta http-equiv="refresh" content="0;url=./">
<p>You are in: <a href="./">to the dashboard</a>.</p></html>
"""
"""A page that goes on by itself. A redirect would not do: a browser that came by a link of another site would follow it without
the cookie, which is for visits from our own pages alone."""

MISDIRECTED, UNKNOWN = 421, 401


class Local:
    """The auth function of `fastq web --local`."""

    def __init__(self, port: int, may: Iterable[str] = READER) -> None:
        self.token: str | None = secrets.token_urlsafe(SECRET_BYTES)
        self._hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())  # noqa: PLR2004 - http's own
        self._cookie = f"fastq_local_{port}"
        self._secret = secrets.token_urlsafe(SECRET_BYTES)
        self._viewer = Viewer("local", may)

    def __call__(self, request: Request) -> Viewer | Response | None:
        """Return the viewer to a browser that has the cookie; give it the cookie for the token."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("expected 127.0.0.1 or localhost as the host of the address\n", MISDIRECTED)
        if same_token(request.cookies.get(self._cookie), self._secret):
            return self._viewer
        if request.method == "GET" and same_token(request.query_params.get(TOKEN), self.token):
            self.token = None
            answer = HTMLResponse(WELCOME)
            answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
            return answer
        return PlainTextResponse(
            "this page is open to the browser alone that has opened the address printed by fastq web --local; "
            "each address works once: run the command again for another\n",
            UNKNOWN,
        )
