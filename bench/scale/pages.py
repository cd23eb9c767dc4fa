"""Ask for each page of the dashboard, as a browser does: the time of the server, the bytes, the tables that were walked through.

The ASGI application is called in this process, without a network. What viewers share is forgotten before each request, so each
one reads the database. Bytes are those of the first view: the page with its script, its style sheet and its icon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from bench.scale import filling
from bench.scale.ground import Ground, session
from fastq.admin import dead
from fastq.bench.cost import tree_seconds
from fastq.web import OPERATOR, Viewer, dashboard
from fastq.web.look.rendering import STATIC

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.web.site import Dashboard

MOST_BYTES, MOST_SECONDS = 60_000, 0.1
"""What is aimed at for a first view."""

WALKED = """
select coalesce(string_agg(distinct case when relname ~ '^job_archive' then 'job_archive' else relname end, ' '), '')
from (
    select relname, seq_tup_read, n_live_tup, coalesce(given.before, 0) as before
    from pg_stat_user_tables
    left join unnest($1::text[], $2::bigint[]) as given (name, before) on given.name = relname
    where schemaname = 'fastq'
) as counted
where seq_tup_read - before > greatest(1000, n_live_tup / 2)
"""
SESSIONS = "select pid from pg_stat_activity where application_name in ('fastq admin', 'fastq client')"
READ = "select array_agg(relname::text), array_agg(seq_tup_read) from pg_stat_user_tables where schemaname = 'fastq'"


class Row(NamedTuple):
    """A page: the seconds of each request, the least CPU of one, bytes, status, and the tables that were walked through."""

    path: str
    seconds: list[float]
    cpu: float
    bytes: int
    status: int
    walked: str


def addresses(ground: Ground, connection: Connection) -> dict[str, list[str]]:
    """Return addresses for each route that is read by GET."""

    def one(text: str, *values: object) -> Any:
        rows = connection.execute(text, *values)
        return rows[0][0] if rows else None

    living = one("select id from fastq.job where seq is not null and state = 'available' order by id desc limit 1")
    runs = one("select id from fastq.job where seq is not null and state = 'running' order by queue, priority, seq limit 1")
    at_gates = one("select id from fastq.job where waits_for is not null and starts_with(waits_for, '[') limit 1")
    later = one("select id from fastq.job where scheduled_at is not null order by queue, scheduled_at limit 1")
    failed = one("select id from fastq.dead order by finalized_at desc limit 1")
    groups = dead.list_dead(connection, limit=1, since=3_600.0).groups
    group = groups[0].id if groups else "none"
    key = one("select encode(key, 'hex') from fastq.unique_key where until <> 'success' order by key limit 1")
    held = one(
        "select ((gates::json -> 0) -> 2)::text from fastq.gate_permit "
        "where starts_with(gates, '[[\"order-hold') order by job limit 1"
    )
    flow = one("select id from fastq.workflow order by id desc limit 1")
    words = ["kind:send_mail", "state:discarded", "error:invoice tag:team-3", "kind:none", "tag:needle", "since:1h"]
    jobs = [living, runs, at_gates, later, failed, filling.needle_id(ground)]
    found = {
        "/jobs": ["/jobs", *(f"/jobs?q={quote(word)}" for word in words), "/jobs?state=running", "/jobs?state=waiting"],
        "/jobs/by-args": ["/jobs/by-args?q=args.account.id%3A77", "/jobs/by-args?q=args.needle%3A42"],
        "/jobs/{id:int}": [f"/jobs/{job}" for job in jobs],
        "/jobs/{id:int}/log": [f"/jobs/{runs}/log"],
        "/dead": ["/dead", "/dead?since=1h", "/dead?kind=build_mail"],
        "/dead/group": [f"/dead/group?group={group}"],
        "/dead/replay": [f"/dead/replay?group={group}"],
        "/dead/delete": [f"/dead/delete?group={group}"],
        "/workflows": ["/workflows", "/workflows?state=running"],
        "/workflows/{id:int}": [f"/workflows/{flow}"],
        "/periodic/show": ["/periodic/show?name=tick-2", "/periodic/show?name=tick-3"],
        "/gates/release": [f"/gates/release?name=stream&key={quote(str(held))}"],
        "/unique/release": [f"/unique/release?key={key}"],
        "/leaders/resign": ["/leaders/resign?name=none"],
        "/doctor": ["/doctor", "/doctor?examine=now"],
    }
    operation = one("select max(id) from fastq.operation") or 0
    found["/operations/{id:int}"] = [f"/operations/{operation}"]
    found["/operations/{id:int}/cancel"] = [f"/operations/{operation}/cancel"]
    for verb in ("retry", "cancel", "delete", "move"):
        found[f"/jobs/all/{verb}"] = [f"/jobs/all/{verb}?q={quote('state:discarded kind:send_mail since:1d')}"]
        found[f"/jobs/by-args/all/{verb}"] = [f"/jobs/by-args/all/{verb}?q={quote('args.needle:42')}"]
    for verb in ("retry", "cancel", "delete"):
        found[f"/jobs/{{id:int}}/{verb}"] = [f"/jobs/{living}/{verb}", f"/jobs/{failed}/{verb}"]
        found[f"/workflows/{{id:int}}/{verb}"] = [f"/workflows/{flow}/{verb}"]
    for thing, name in (("queues", "mails"), ("kinds", "send_mail"), ("gates", "render"), ("everything", "")):
        for verb in ("pause", "resume", "set", "remove"):
            found[f"/{thing}/{verb}"] = [f"/{thing}/{verb}?name={name}"]
    for verb in ("run", "pause", "resume"):
        found[f"/periodic/{verb}"] = [f"/periodic/{verb}?name=tick-2"]
    return found


async def get(site: Dashboard, path: str) -> tuple[int, bytes]:
    """Ask for a page; return its status and its body."""
    local, _, query = path.partition("?")
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": "GET",
        "path": local,
        "query_string": query.encode(),
        "headers": [],
        "root_path": "",
        "scheme": "http",
    }
    await site({**scope, "server": ("localhost", 80), "client": ("127.0.0.1", 1), "http_version": "1.1"}, receive, send)  # type: ignore[arg-type]
    return status, body


async def ask(site: Dashboard, connection: Connection, path: str, rounds: int) -> Row:
    """Ask for a page again and again."""
    seconds, cpu, status, body = [], [], 0, b""
    before = connection.execute(READ)[0]
    for _ in range(rounds):
        site._desk.shared.forget()  # noqa: SLF001 - each request is to read the database
        sessions = {int(pid): tree_seconds(int(pid)) for (pid,) in connection.execute(SESSIONS)}
        own, began = time.process_time(), time.monotonic()
        status, body = await get(site, path)
        seconds.append(time.monotonic() - began)
        cpu.append(time.process_time() - own + sum(tree_seconds(pid) - before for pid, before in sessions.items()))
        if seconds[-1] > 10 * MOST_SECONDS:
            break  # it is as slow the next time
    await asyncio.sleep(1.1)  # servers tell their counts of reads once a second
    connection.execute("select pg_stat_clear_snapshot()")
    [(walked,)] = connection.execute(WALKED, *before)
    return Row(path, seconds, min(cpu), len(body), status, walked)


def measure(ground: Ground, config: Config, rounds: int, only: str = "") -> list[Row]:
    """Ask for all pages, print their figures, and return them."""
    site = dashboard(config, auth=lambda _: Viewer("ada", OPERATOR))
    connection = session(config)
    known = addresses(ground, connection)
    beside = sum(len(file.body) for file in STATIC.values())
    paths = [
        path for route in site.routes if "GET" in route.methods for path in known.get(route.path, [route.path]) if "{" not in path
    ]
    rows = []

    async def each() -> None:
        for path in paths:
            if only in path:
                row = await ask(site, connection, path, rounds)
                rows.append(row)
                late = "  SLOW" if max(row.seconds) > MOST_SECONDS else ""
                large = "  LARGE" if row.bytes + beside > MOST_BYTES else ""
                walked = f"  walked through {row.walked}" if row.walked else ""
                took = f"{median(row.seconds) * 1e3:7.1f} ms, worst {max(row.seconds) * 1e3:7.1f}, CPU {row.cpu * 1e3:6.1f} ms"
                size = f"{(row.bytes + beside) / 1e3:5.1f} kB"
                print(f"  {took}, {size}, {row.status} {path}{late}{large}{walked}", flush=True)

    asyncio.run(each())
    site.close()
    connection.close()
    return rows
