"""`fastq web`: serve the dashboard on the loopback of this machine.

Runs in the main thread of the command, which runs the event loop; the dashboard has a few threads of its own. The server
listens on 127.0.0.1 and on nothing else: for others there is a proxy in front, or an application that mounts it
(docs/dashboard.md). It is closed until told who may see it: by --local, which lets one browser of this machine in, or by a
function of the application's.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastq import app
from fastq.cli.terminal import settings
from fastq.cli.terminal.database import found
from fastq.cli.terminal.output import note, out
from fastq.cli.terminal.parser import whole
from fastq.errors import ConfigError
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from fastq.config import Config

EPILOG = """\
examples:
  fastq web --local                    prints an address for your browser
  fastq web --local --operate          that may change things, too
  fastq web --auth app.web:auth        for everybody whom your function knows

It listens on 127.0.0.1 alone. The address of --local works once, in one
browser. With --auth your function is given each request and returns a
fastq.web.Viewer, or None; put a proxy with TLS in front. Where the proxy does
not pass the browser's Host on, say its name: --origin https://ops.example.org

The same dashboard in FastAPI, Starlette or Django: docs/dashboard.md. The
name and the colour of the cluster: --instance-name, --instance-colour.
"""

PORT = 4280
"""The port unless one is given: no service is registered for it. A guess."""

GRACE = 2
"""Seconds that open pages get when the server ends: their streams have no end of their own."""

INSTANCE = ("instance_name", "instance_colour")
"""Settings that are flags of this command, beside those of the database."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--local", action="store_true", help="let one browser of this machine in, by an address that works once")
    who.add_argument("--auth", metavar="MODULE:FUNCTION", help="let those in whom this function of yours knows")
    parser.add_argument("--operate", action="store_true", help="with --local: let it change things, not only look")
    parser.add_argument("--port", type=whole, default=PORT, metavar="PORT", help=f"on 127.0.0.1; 0: any that is free [{PORT}]")
    parser.add_argument("--root-path", default="", metavar="PATH", help="with --auth: the path below which your proxy shows it")
    parser.add_argument(
        "--origin", action="append", default=[], metavar="URL", help="with --auth: a name by which browsers know it, https://HOST"
    )
    parser.add_argument("--app-dir", type=Path, metavar="FOLDER", help="with --auth: where your modules are [this folder]")
    settings.add_some(parser, "which cluster", INSTANCE)
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        from fastq import web  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise ConfigError(str(missing)) from None
    config = settings.load(options)
    if options.root_path and (options.local or not options.root_path.startswith("/")):
        raise ConfigError(f"--root-path {options.root_path}: expected a path such as /ops/fastq, with --auth")
    if options.operate and not options.local:
        raise ConfigError("--operate: expected with --local; with --auth your function says what each viewer may do")
    _check_origins(options)
    auth: Any = app.find(options.auth, options.app_dir) if options.auth else None
    with found(config) as database, _bound(options.port) as bound:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        port = bound.getsockname()[1]
        place = f"http://127.0.0.1:{port}/"
        if auth is None:
            from fastq.web.security.local import TOKEN, Local  # noqa: PLC0415 - the same extra

            auth = Local(port, web.OPERATOR if options.operate else web.READER)
            out(f"{place}?{TOKEN}={auth.token}")
            note("open this address in your browser: it works once; Ctrl-C ends the server")
        else:
            out(place)
        sys.stdout.flush()  # a program that reads it in a pipe waits for it
        made = web.dashboard(_with(config, database.url), auth=auth, origins=options.origin)
        _serve(made, bound, options.root_path, proxied=not options.local)
    return 0


def _check_origins(options: argparse.Namespace) -> None:
    """Refuse an origin that no browser sends: it would let nobody do anything, and say so only then."""
    for origin in options.origin:
        parts = urlsplit(origin)
        if options.local or parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}".lower():
            raise ConfigError(f"--origin {origin}: expected scheme and host such as https://ops.example.org, with --auth")


def _with(config: Config, url: str) -> Config:
    return replace(config, database_url=url)


@contextmanager
def _bound(port: int) -> Iterator[socket.socket]:
    """Give a socket of the loopback; ConfigError if the port cannot be had."""
    try:
        bound = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--port {port}: cannot listen on 127.0.0.1:{port} ({error}); choose another, or 0 for any") from None
    with bound:
        yield bound


def _serve(dashboard: Any, bound: socket.socket, root_path: str, *, proxied: bool) -> None:
    """Run the server in this thread until a signal ends it."""
    import uvicorn  # noqa: PLC0415 - an extra

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End in order at a signal: raised again, as uvicorn does, SIGTERM would end this program at once."""
            with super().capture_signals():
                yield
                getattr(self, "_captured_signals", []).clear()

    config = uvicorn.Config(
        dashboard,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=proxied,
        root_path=root_path.rstrip("/"),
        timeout_graceful_shutdown=GRACE,
    )
    Server(config).run(sockets=[bound])
