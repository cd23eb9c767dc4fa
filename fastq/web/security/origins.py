"""Refuse changes that another site has a browser ask for: by the headers that browsers send, and by a token in each form.

Pure functions, called in the event loop that serves, before an action is done. A browser says in `Sec-Fetch-Site` where a request
comes from, and in `Origin` which site that is; a page of another site can set neither. A request that has none of the two is
refused, for no browser of today sends such a form. The token is a random text that stands in a cookie, which no other site may
read, and in the form.

Invariant: a request passes only if all that it says fits. It deliberately keeps no list of tokens: several processes may serve.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.requests import Request

SAFE = ("GET", "HEAD")
"""Methods that change nothing here; the dashboard knows POST besides."""

TOKEN_BYTES = 24
"""Random bytes of a form's token: more than anybody guesses."""


def refusal(request: Request, allowed: Collection[str]) -> str | None:
    """Say why a request that changes something is not one of our own pages'; None if it is.

    `allowed` are further origins, for a proxy that rewrites the Host header: `https://ops.example.org`.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is None and origin is None:
        return "expected the header Sec-Fetch-Site or Origin, as browsers send them with forms; got neither"
    if site not in (None, "same-origin") and origin not in allowed:
        return f"expected a request of this site's own page (Sec-Fetch-Site: same-origin), got {site!r}"
    if origin is not None and origin not in allowed and not _is(_place(origin), request.headers.get("host", "").lower()):
        return (
            f"expected an Origin that is this Host ({request.headers.get('host', '')!r}), got {origin!r}; "
            "where a proxy hides the Host, give that origin to dashboard(origins=...) or fastq web --origin"
        )
    return None


def _is(place: str, host: str) -> bool:
    """Tell whether both name one place; two that name none are not the same."""
    return bool(place) and place == host


def _place(origin: str) -> str:
    """Return host and port as a browser writes them in both headers; an empty text for `null`, which names no place."""
    return origin.partition("://")[2].lower()


def new_token() -> str:
    """Make the token of a browser's forms."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def same_token(one: str | None, other: str | None) -> bool:
    """Tell whether the form's token is the cookie's, in a time that does not tell how far they are alike."""
    if not one or not other:
        return False
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))
