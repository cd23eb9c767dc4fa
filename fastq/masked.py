"""Take the passwords of databases out of texts that somebody will see.

Pure functions, run by the main thread of a command for its messages, by any thread for the text of a `Config`, and by the thread
that writes what jobs have logged. Any characters at the place of a password are taken out, even if they are none: a text is shown
to people, never read again. The time that it takes grows with the text alone, whatever is in it.

It deliberately knows no secrets of the user's own: the text of his exceptions is his.
"""

from __future__ import annotations

import re

HIDDEN = "•••"
"""Stands for a value that is not shown."""

_BEFORE_AT = re.compile(r'(?<![^\s"])[^\s"]*@')
"""A word up to its last @: in another part of a text there is nothing to find, and each colon of it would be tried in vain."""

_IN_URL = re.compile(r"""((?:://)?(?<![^\s:/@"'])[^\s:/@"']*:)(?!//)[^\s"]*@""")
"""A user, a colon and a password up to the last @ of the word, in something that may not be quite a URL: an error quotes it as it
came, and a password with an @ in it that is not written as %40 is one of the reasons."""

_IN_DSN = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)


def masked(text: str) -> str:
    """Return the text without the passwords of database URLs and connection strings."""
    return _IN_DSN.sub(r"\1***", _BEFORE_AT.sub(lambda word: _IN_URL.sub(r"\1***@", word[0]), text))
