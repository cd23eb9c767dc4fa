"""Put values and texts of jobs through the application's redaction before anybody sees them.

Called in the threads that read the database for a page; a `Redaction` has the application's function, keeps nothing besides, and
is shared by all pages. Encrypted args and Secrets are three dots before they come here (fastq/args/secret/).

Invariant: where the function raises, three dots are shown and the event `web.unredacted` says so: the value never is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from fastq.events import Seldom, emit
from fastq.masked import HIDDEN

Redact: TypeAlias = Callable[[str, str, Any], Any]
"""The application's function: given the kind, the sort of the value and the value, it returns the value to show.

The sorts are 'args', 'output', 'value' (of a step), 'error', 'log', 'progress' and 'meta'."""


class Redaction:
    """Hides values from viewers who may not see them, and shows others as the application's function wants it."""

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact
        self._seldom = Seldom()  # several threads: at worst an event more is told

    @property
    def redacts(self) -> bool:
        """Tell whether the application hides parts of values."""
        return self._redact is not None

    def shown(self, kind: str, what: str, value: Any) -> Any:
        """Return the value to show for a value of a job."""
        if self._redact is None or value is None:
            return value
        try:
            return self._redact(kind, what, value)
        except Exception as error:  # noqa: BLE001 - whatever the application raises, the value stays hidden
            told = f"{type(error).__name__} for {what} of kind {kind}"
            if self._seldom.lets(told):
                emit("web.unredacted", level=logging.ERROR, kind=kind, what=what, error=type(error).__name__)
            return HIDDEN

    def stored(self, kind: str, what: str, text: str | None) -> Any:
        """Return the value to show for JSON as it is stored.

        Postgres takes JSON that cannot be read here: half of a surrogate pair, a number of 400 digits, a thousand lists in each
        other. That is shown as the text that it is, since the job's page has the button that cancels it; but not where the
        application redacts, whose function looks for fields in a value.
        """
        if text is None:
            return None
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return text if self._redact is None else HIDDEN
        return self.shown(kind, what, value)

    def text(self, kind: str, what: str, value: str | None) -> str | None:
        """Return the text to show for a text of a job."""
        shown = self.shown(kind, what, value)
        return None if shown is None else str(shown)
