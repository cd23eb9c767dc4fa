"""Serve an action: the page that asks, and the form of that page that does it and goes back, with a sentence about the result.

Runs in the event loop that serves; the functions of the action run in a thread. That a request comes from one of our own pages
was looked at before (site.py); here the form's token must be the one of the browser's cookie, besides.

Invariants: GET changes nothing; an action is done at most once for a POST, and each is an event with the name of the viewer.
The body of a form is bounded before it is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import Response

from fastq.admin.bulk.audits import LONGEST_NAME
from fastq.errors import OptionError
from fastq.events import emit
from fastq.web.routing.serving import REFUSED, WRONG, problem
from fastq.web.routing.view import Action, Asked, Done, inside
from fastq.web.security.origins import new_token, same_token

if TYPE_CHECKING:
    from starlette.requests import Request

    from fastq.web.routing.desk import Arrival, Desk

FORM, TOKEN = "fastq_form", "token"
"""The cookie with the token, and its field in each form."""

LONGEST, FIELDS = 64 * 1024, 50
"""Bytes and fields of a form: an action has some three, of a sentence each."""

TYPE = "application/x-www-form-urlencoded"


class Doing:
    """An action of a dashboard."""

    def __init__(self, desk: Desk, action: Action) -> None:
        self._desk, self._action = desk, action
        self.needs, self.also = action.needs, action.also
        self.path = action.path
        self.methods = frozenset({"GET", "HEAD", "POST"})

    async def __call__(self, arrival: Arrival) -> Response:
        """Answer a request."""
        try:
            if arrival.request.method != "POST":
                return await self._ask(arrival)
            return await self._do(arrival)
        except Exception as error:  # noqa: BLE001 - each of them becomes a page
            return problem(self._desk, arrival, error, self._action.verb)

    async def _ask(self, arrival: Arrival, form: Mapping[str, str] | None = None, wrong: str = "") -> Response:
        desk, action = self._desk, self._action
        asked = await self._asked(arrival, form)
        token = arrival.request.cookies.get(FORM) or new_token()
        content = {"asked": asked, "action": action, "token": token, "wrong": wrong, "form": form or {}}
        content["back"] = inside((form or {}).get("back") or arrival.request.query_params.get("back")) or asked.back
        query = arrival.request.url.query
        content["where"] = arrival.base + arrival.local + (f"?{query}" if query else "")
        answer = desk.page(action.verb, arrival, "confirm.html", content, status=WRONG if wrong else 200)
        if token != arrival.request.cookies.get(FORM):
            answer.set_cookie(FORM, token, path=arrival.base or "/", httponly=True, samesite="strict", secure=arrival.secure)
        return answer

    async def _do(self, arrival: Arrival) -> Response:
        desk, action = self._desk, self._action
        form = await _form(arrival.request)
        if not same_token(form.get(TOKEN), arrival.request.cookies.get(FORM)):
            emit(
                "web.refused",
                level=logging.WARNING,
                by=arrival.viewer.name,
                path=action.path,
                why="the form's token is not the cookie's",
            )
            told = "the form is not from a page of this browser's: go back, load the page anew, and try again"
            return desk.page(action.verb, arrival, "problem.html", {"reason": told}, status=REFUSED)
        try:
            asked = await self._asked(arrival, form)
            doing = desk.source.change(lambda connection: action.do(desk.visit(connection, arrival, form, _named(arrival))))
            done: Done = await asyncio.shield(asyncio.wrap_future(doing))  # a browser that leaves does not take it back
        except OptionError as error:
            return await self._ask(arrival, form, str(error))
        finally:
            desk.shared.forget()
        emit("web.acted", by=arrival.viewer.name, action=action.needs, subject=asked.subject, done=done.ok, told=done.told)
        return desk.redirect(arrival, done.back or inside(form.get("back")) or asked.back, done.told)

    async def _asked(self, arrival: Arrival, form: Mapping[str, str] | None) -> Asked:
        desk, action = self._desk, self._action
        return await asyncio.wrap_future(desk.source.read(lambda connection: action.ask(desk.visit(connection, arrival, form))))


def _named(arrival: Arrival) -> str:
    """Return the name of the viewer as the audit takes it: short, and printable."""
    name = "".join(one if one.isprintable() else "?" for one in arrival.viewer.name)
    return name[:LONGEST_NAME] or "unknown"


async def _form(request: Request) -> dict[str, str]:
    """Read the body of a form; OptionError for one that is none, or too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != TYPE:
        raise OptionError(f"form: expected the content type {TYPE}")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise OptionError(f"form: expected {LONGEST:,} bytes at most")
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError:
        raise OptionError(f"form: expected {FIELDS} fields at most") from None
    return dict(pairs)
