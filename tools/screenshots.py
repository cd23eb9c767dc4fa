"""Make the pictures of docs/dashboard.md: a database with a shop's jobs, the dashboard over it, and a headless Chromium.

    python tools/screenshots.py [FOLDER]          into docs/images unless a folder is given

It takes the development tools (`make build`) and a Chromium of the system's (`apt-get install chromium`). The database is an
embedded Postgres in a folder of its own, which is removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from playwright.sync_api import sync_playwright

from fastq import Args, Client, Config, Cron, Every, Fair, Limit, Ordered, Rate, Registry, Unique, Workflow
from fastq.lead import definitions
from fastq.leases import lease
from fastq.postgres import db, embedded
from fastq.schema.migrate import migrate
from fastq.statistics.bins import OF_WAITS, bin_of
from fastq.web import OPERATOR, Viewer, dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)
WIDE, NARROW = {"width": 1180, "height": 720}, {"width": 390, "height": 844}

PICTURES = [  # name, path, size, theme
    ("overview", "/", WIDE, "light"),
    ("job", "/jobs/{failing}", WIDE, "light"),
    ("workflow", "/workflows/{workflow}", WIDE, "dark"),
    ("limits", "/gates", WIDE, "light"),
    ("narrow", "/", NARROW, "dark"),
]


@dataclass
class MailArgs(Args, kind="mail", queue="emails", gates=[Rate("mail-api", at_most=100, per=60, by="account")]):
    """A mail to a customer."""

    account: int
    subject: str = "your order is on its way"


@dataclass
class ChargeArgs(Args, kind="charge", queue="payments", unique=Unique("order"), max_attempts=8):
    """Money from a customer."""

    order: int
    cents: int


@dataclass
class StockArgs(Args, kind="stock", gates=[Ordered("warehouse", by="place", when_discarded="hold")]):
    """The goods of a place, one after the other."""

    place: str


@dataclass
class ReportArgs(Args, kind="report", gates=[Fair("customers", by="customer")]):
    """A customer's report, in rounds."""

    customer: str


@dataclass
class FetchArgs(Args, kind="fetch_orders", gates=[Limit("shop-api", at_most=8)]):
    """The orders of a day."""

    day: str


@dataclass
class SumArgs(Args, kind="sum_region"):
    """A step of the nightly report."""

    region: str


TRACE = """Traceback (most recent call last):
  File "/srv/shop/payments.py", line 88, in work
    receipt = gateway.charge(job.args.order, job.args.cents)
  File "/srv/shop/gateway.py", line 41, in charge
    raise GatewayTimeout(f"no answer from {self.host} in {self.timeout:.0f} s")
shop.gateway.GatewayTimeout: no answer from pay.example.org in 20 s
"""
GONE = "ConnectionError: pay.example.org:443 refused the connection for order {}"
BOUNCED = "ValueError: mailbox {} does not exist"


def furnish(url: str) -> dict[str, int]:
    """Put a shop's jobs into the database; return the ids that pictures name."""
    connection = db.connect(url, role="screenshots")
    with Client(url) as client:
        client.enqueue_many([MailArgs(n % 7) for n in range(420)])
        client.enqueue_many([ChargeArgs(8_000 + n, 1_990) for n in range(64)])
        client.enqueue_many([ReportArgs(f"customer-{n % 9}") for n in range(130)])
        client.enqueue_many([StockArgs(place) for place in ("north", "south", "north", "south")])
        client.enqueue_many([FetchArgs(f"2026-11-{n:02d}") for n in range(1, 20)], delay=3_600)
        failing = int(client.enqueue(ChargeArgs(7_341, 12_900), tags=["customer-81", "checkout"]))
        workflow = client.enqueue_workflow(nightly()).id
        client.set_gate("shop-api", 4)
        client.pause(kind="report", until=2 * 3_600, reason="the warehouse is being moved")
    run(connection, failing)
    finish(connection)
    declare(connection)
    lead(connection, workflow)
    count(connection)
    connection.close()
    return {"failing": failing, "workflow": workflow}


def nightly() -> Workflow:
    """Build a workflow with some width."""
    flow = Workflow("nightly-report")
    fetch = flow.add(FetchArgs("2026-11-19"), name="fetch-orders")
    clean = flow.add(SumArgs("clean"), name="clean", after=fetch)
    rates = flow.add(SumArgs("rates"), name="exchange-rates")
    regions = [flow.add(SumArgs(name), name=name, after=[clean, rates]) for name in ("north", "east", "south", "west")]
    total = flow.add(SumArgs("total"), name="total", after=[region.ended for region in regions])
    flow.add(MailArgs(1, "the nightly report"), name="mail-it", after=total)
    flow.add(SumArgs("archive"), name="archive", after=total)
    return flow


def run(connection: Any, failing: int) -> None:
    """Have some jobs run on two hosts, and one come back from failed attempts."""
    for number, host in enumerate(("worker-1", "worker-1", "worker-1", "worker-2", "worker-2", "worker-2"), 1):
        connection.execute(
            "insert into fastq.process (id, host, pid, supervisor, queues, started_at, expires_at, kinds) values "
            "($1, $2, $3, $4, "
            "'default,emails,payments', now() - interval '3 hours', now() + interval '1 day', "
            "array['mail', 'charge', 'stock', 'report', 'fetch_orders', 'sum_region'])",
            number, host, 4_100 + number, f"{host}:4100:5e0c77aa",
        )  # fmt: skip
    connection.execute(
        "update fastq.job set state = 'running', attempt = 1, claim = (1 + id % 6) << 32 | 7, "
        "attempted_at = now() - (id % 50) * interval '3.1 s', seq = coalesce(seq, nextval('fastq.job_seq')), waits_for = null "
        "where id in (select id from fastq.job where kind in ('charge', 'stock', 'report') and state <> "
        "'scheduled' order by id limit 26)"
    )
    connection.execute(
        "insert into fastq.job_progress (job, fraction, attempt, text) "
        "select id, 0.1 + (id % 9) / 10.0, 1, 'page ' || id % 40 from fastq.job where state = 'running' and kind <> 'charge'"
    )
    errors = [
        {
            "attempt": number,
            "at": (datetime.now(UTC) - timedelta(seconds=ago)).isoformat(timespec="seconds"),
            "error": "shop.gateway.GatewayTimeout: no answer from pay.example.org in 20 s",
            "trace": TRACE,
        }
        for number, ago in ((1, 12_000), (2, 7_000), (3, 20))
    ]
    connection.execute(
        "update fastq.job set state = 'retryable', seq = null, waits_for = null, attempt = 3, errors = $2::jsonb, "
        "created_at = now() - interval '4 hours', attempted_at = now() - interval '40 s', scheduled_at = now() + "
        "interval '41 s' where id = $1",
        failing, json.dumps(errors),
    )  # fmt: skip
    for name, took in (("reserve the goods", 0.12), ("ask for fraud", 1.9)):
        connection.execute(
            "insert into fastq.job_step (job, sort, name, at, attempt, took, output) "
            "values ($1, 'step', $2, now() - interval '3 hours', 1, $3, $4::json)",
            failing, name, took, json.dumps({"ok": True, "reference": "R-20418"}),
        )  # fmt: skip
    log = "".join(f"2026-11-20T03:00:{second:02d}+00:00\tINFO\tshop.payments\t{text}\n" for second, text in enumerate(
        ("reserved 3 items", "risk 0.02: go on", "charging 129.00 EUR", "no answer, giving up after 20 s")))  # fmt: skip
    connection.execute(
        "insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text) values ($1, "
        "1, 0, 3, 9, 4, true, 'charge', $2)",
        failing, log,
    )  # fmt: skip


def finish(connection: Any) -> None:
    """Put discarded jobs of some causes into the archive, and a key that one of them holds."""
    for kind, queue, text, count in (("charge", "payments", GONE, 37), ("mail", "emails", BOUNCED, 12)):
        for number in range(count):
            error = text.format(8_000 + number)
            values = (kind, queue, json.dumps([{"attempt": 8, "at": "2026-11-20T03:00:00+00:00", "error": error}]), number)
            [(job,)] = connection.execute(
                "insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, "
                "attempt, max_attempts, "
                "crashes, queue, kind, args, errors, meta) values (nextval('fastq.job_id_seq'), now() - interval "
                "'3 hours', now() - interval '2 hours', "
                "now() - $4 * interval '70 s', 'discarded', 1, 8, 8, 0, $2, $1, '{}', $3::jsonb, '{\"cause\": "
                '"failed"}\') returning id',
                *values,
            )
            connection.execute(
                "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error) "
                "values ($1, now() - $2 * interval '70 s', 1, 8, $3, $4, 'failed', '{}', $5)",
                job, number, queue, kind, error,
            )  # fmt: skip
    connection.execute(
        "insert into fastq.gate_permit (job, queue, gates) values ($1, 'default', $2)",
        job,
        '[["order-hold","warehouse","harbour",1,1]]',
    )


def declare(connection: Any) -> None:
    """Declare periodic jobs."""
    registry = Registry()
    registry.periodic("nightly-report", Cron("30 2 * * *", tz="Europe/Berlin"), FetchArgs("yesterday"))
    registry.periodic("monday-digest", Cron("0 9 * * mon", tz="Europe/Berlin"), MailArgs(1))
    registry.periodic("stock-sync", Every(300), StockArgs("all"))
    definitions.define(connection, registry)
    connection.execute("update fastq.process set periodic = $1", definitions.declared(registry))


def lead(connection: Any, workflow: int) -> None:
    """Have somebody lead, with chores, and a workflow be half done."""
    for name in ("schema", "leader:default", "singleton:projection:orders"):
        term = lease.acquire(connection, name, "worker-1:4100:5e0c77aa", 86_400.0).term
        connection.run("chore_note", name, term, ["promote"], [0.0], [0.0031], [5_821], [40_112], [0], [None])
    ends = {
        "fetch-orders": "completed",
        "clean": "completed",
        "exchange-rates": "completed",
        "north": "completed",
        "east": "completed",
    }
    for name, state in ends.items():
        connection.execute(
            "update fastq.workflow_step set state = $3::fastq.state, passed = true where workflow = $1 and name = $2",
            workflow,
            name,
            state,
        )
    connection.execute("update fastq.workflow set completed = $2 where id = $1", workflow, len(ends))
    connection.execute(
        "update fastq.job set state = 'running', seq = coalesce(seq, nextval('fastq.job_seq')), claim = "
        "2::bigint << 32 | 9, waits_for = null, attempt = 1, attempted_at = now() "
        "where id in (select job from fastq.workflow_step where workflow = $1 and name in ('south', 'west'))",
        workflow,
    )


def count(connection: Any) -> None:
    """Have worker processes have counted an hour's jobs: waves of mails, payments that fail for some minutes."""
    for queue, kind, jobs, took, wait in (("emails", "mail", 240, 0.04, 0.006), ("payments", "charge", 31, 1.3, 0.02)):
        for minute in range(59):
            wave = jobs + jobs * (minute * 7 % 12) // 15 + (jobs if minute in range(31, 36) else 0)
            failed = minute % 4 + (9 if queue == "payments" and minute in range(13, 19) else 0)
            for outcome, number in (("completed", wave), ("retryable", failed)):
                bins = {bin_of(took * (1 + minute % 3)): number, OF_WAITS + bin_of(wait * (1 + minute % 5)): number}
                connection.execute(
                    "insert into fastq.stat (grain, at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, "
                    "bins, counts) values (0, date_trunc('minute', now()) - $1 * interval '1 minute', $2, $3, $4, $5::int, "
                    "$5::int, $5::int * 0.1, $5::int, $5::int * 0.01, $6, $7)",
                    minute, queue, kind, outcome, number, list(bins), list(bins.values()),
                )  # fmt: skip


@contextmanager
def served(url: str) -> Iterator[str]:
    """Serve the dashboard on a free port of the loopback; give its address."""
    config = Config(database_url=url, instance_name="shop production", instance_colour="red")
    app = dashboard(config, auth=lambda _: Viewer("ada", OPERATOR))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def shoot(place: str, ids: dict[str, int], folder: Path, pictures: list[Any]) -> None:
    """Make the pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        for name, path, size, theme in pictures:
            page = browser.new_page(viewport=size, color_scheme=theme)
            page.goto(place + path.format(**ids))
            if page.locator("[data-live]").count():
                page.locator(".pulse:not(.away)").wait_for()
            file = folder / f"dashboard-{name}.png"
            page.screenshot(path=file)
            page.close()
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        browser.close()


def main() -> None:
    """Make the database, serve it, make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--all", action="store_true", help="every page in both themes and sizes, to look at")
    options = parser.parse_args()
    if not Path(CHROMIUM).exists():
        sys.exit(f"expected a Chromium at {CHROMIUM}: apt-get install chromium")
    options.folder.mkdir(parents=True, exist_ok=True)
    pictures = every() if options.all else PICTURES
    data = Path(tempfile.mkdtemp(prefix="fastq-pictures-"))
    data.chmod(0o711)
    try:
        with embedded.start(data) as server:
            migrate(server.url)
            ids = furnish(server.url)
            with served(server.url) as place:
                shoot(place, ids, options.folder, pictures)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def every() -> list[Any]:
    """Return each page in light and dark, wide and narrow."""
    paths = {
        "overview": "/", "jobs": "/jobs", "job": "/jobs/{failing}", "dead": "/dead", "workflows": "/workflows",
        "workflow": "/workflows/{workflow}", "periodic": "/periodic", "periodic-one": "/periodic/show?name=nightly-report",
        "queues": "/queues", "gates": "/gates", "hosts": "/hosts", "leaders": "/leaders", "singletons": "/singletons",
        "doctor": "/doctor", "findings": "/doctor?examine=now",
        "confirm": "/queues/pause?name=emails", "retry": "/jobs/{failing}/cancel", "missing": "/jobs/999999",
    }  # fmt: skip
    return [
        (f"{name}-{theme}-{size['width']}", path, size, theme)
        for name, path in paths.items() for theme in ("light", "dark") for size in (WIDE, NARROW)
    ]  # fmt: skip


if __name__ == "__main__":
    main()
