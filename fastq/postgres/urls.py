"""Check a database's URL, without its secrets in the message, and read the options in it.

Pure functions, called before a connection is opened, in the thread that opens it. They know URLs and connection strings as libpq
reads them, and deliberately open nothing.
"""

from __future__ import annotations

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from fastq.errors import ConfigError

POOLER_ADVICE = "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL that leads to Postgres itself: docs/deploying.md, PgBouncer"
"""The advice if a pooler shares the sessions of the server and the configuration does not know of it."""


def check_url(url: str) -> None:
    """Refuse a URL that libpq cannot read, before anybody tries to connect and tries again."""
    try:
        host = str(conninfo_to_dict(url).get("host") or "")
    except (psycopg.Error, UnicodeError) as error:
        scheme, _, driver = url.partition("://")[0].partition("+")
        if driver and scheme in ("postgresql", "postgres"):
            why = f"leave '+{driver}' out, which is SQLAlchemy's"
        elif (why := str(error).strip().partition("\n")[0]).startswith('missing "="'):
            why = "this begins with no postgresql:// and has no '='"
        else:
            why = why.split('"', maxsplit=1)[0].rstrip(": ")  # libpq's quote may be a part of the password
    else:
        if "@" not in host[1:]:  # an abstract socket begins with one
            return
        why = "write an '@' in the user or the password as %40"  # the rest of it would be looked up, and logged, as the host
    raise ConfigError(f"the database's URL: expected postgresql://USER@HOST/NAME, or name=value pairs; {why}")


def options_of(url: str) -> str:
    """Return the options that libpq would send, from the URL or else from PGOPTIONS: it takes one set of them, not two."""
    known = [*pq.Conninfo.get_defaults(), *pq.Conninfo.parse(url.encode())]
    given = [option.val for option in known if option.keyword == b"options" and option.val is not None]
    return given[-1].decode() if given else ""
