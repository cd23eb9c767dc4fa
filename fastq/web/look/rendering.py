"""Render templates: one environment of Jinja with autoescape on, our filters, and the addresses of script and style sheet.

The environment is made at import, by the thread that imports this module, and read by the event loops that serve; Jinja compiles
each template once. Static files are read once, into memory, and named by a digest of their bytes, so that browsers may keep them.

Invariant: every value that a template writes is escaped. No template and no filter marks a text as safe; drawings are elements of
SVG in the templates, with numbers in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fastq.web.look import wording

FOLDER = Path(__file__).parent.parent

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
"""The types of the static files."""


class Static(NamedTuple):
    """A static file."""

    body: bytes
    type: str
    digest: str


def _static(path: Path) -> Static:
    body = path.read_bytes()
    return Static(body, TYPES[path.suffix], hashlib.blake2b(body, digest_size=6).hexdigest())


STATIC = {path.name: _static(path) for path in sorted((FOLDER / "static").iterdir()) if path.suffix in TYPES}
"""The static files by name."""


FILTERS = ("ago", "span", "absolute", "machine", "pretty", "brief", "cut", "took", "rate", "memory")
"""The functions of wording.py that templates know by their own names."""


def address(path: str, /, **query: Any) -> str:
    """Write an address below the dashboard: each part of the query quoted, without those that are None or empty."""
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    return path + (f"?{urlencode(given, doseq=True, quote_via=quote)}" if given else "")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {name: getattr(wording, name) for name in FILTERS}
    made.filters |= {"number": wording.count, "plural": wording.plural}
    made.globals |= {"address": address, "static": {name: f"static/{name}?{one.digest}" for name, one in STATIC.items()}}
    return made


ENVIRONMENT = _environment()


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template."""
    return ENVIRONMENT.get_template(template).render(values)
