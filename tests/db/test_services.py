"""Every service under stress: ten threads call whatever a service may be asked, in any order, at any time, fifty times over.

A service of a process is made, started once, and taken down by `stop` and `finish` (fastq/service.py). Nothing that its contract
allows may raise, in the thread that calls or in one of its own, nor leave a thread or a session behind.
"""

import ast
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastq import Args, Config, Job, Worker
from fastq.board.board import Board
from fastq.board.extent import ring_size
from fastq.host.listener import Listener
from fastq.host.recovery import Recovery
from fastq.host.registrar import Registrar
from fastq.host.vitals.notify import Manager
from fastq.host.vitals.port import Port
from fastq.host.vitals.vitals import Vitals
from fastq.joblogs import keeping
from fastq.joblogs.transcript import Transcript
from fastq.lead.maintainer import Maintainer
from fastq.leases.elector import Candidacy, Elector
from fastq.postgres import db
from fastq.results.progress import Note
from fastq.service import Service
from fastq.work.claim.producer import Producer
from fastq.work.complete.completer import Completer
from fastq.work.execute.bundles import Bundles
from fastq.work.execute.loop import Loop
from fastq.work.execute.mode import Mode
from fastq.work.execute.threads import Threads
from fastq.work.execute.watchdog import Watchdog
from fastq.work.forwarder import Forwarder
from fastq.work.inboxes import Inboxes
from fastq.work.isolated.apart import Apart
from fastq.work.notes import Notes
from fastq.work.scribe import Scribe
from fastq.work.shared.away import Away
from fastq.work.shared.held import Held
from fastq.work.shared.lane import Feed, Outbox
from fastq.work.singletons import Singletons
from fastq.work.stacks import Stacks
from fastq.work.telling import Telling
from tests.db.leases import configured
from tests.helpers import wait_for
from tests.process.threads import Seat, Surroundings

THREADS, CYCLES, CALLS = 10, 50, 8
FASTQ = Path(__file__).parent.parent.parent / "fastq"


class MailArgs(Args, kind="mail"):
    """The args of a job that tells something."""


def listener(config: Config, url: str) -> Service:
    return Listener(config, url, {}, lambda: None)


def registrar(config: Config, url: str) -> Service:
    return Registrar(config, url, Board.make([1], 2, 16), lambda _: None)


def recovery(config: Config, url: str) -> Service:
    made = Recovery(config, url, Board.make([1], 2, 16), lambda _: None)
    made.add(1, 0, 2**22 + 1, "stress")  # so that there is something to do; no process has that pid
    return made


def maintainer(config: Config, url: str) -> Service:
    return Maintainer(config, url)


def away(config: Config, url: str) -> Service:
    return process_of(config, url).away


def completer(config: Config, url: str) -> Service:
    return process_of(config, url).completer


def inboxes(config: Config, url: str) -> Service:
    return Inboxes(process_of(config, url).feeds)


def loop(config: Config, url: str) -> Service:
    return mode(Loop, config)


def threads(config: Config, url: str) -> Service:
    return mode(Threads, config)


def apart(config: Config, url: str) -> Service:
    return mode(Apart, config)


class Awaiting(Worker[Args]):
    mode, is_async = "bundles", True


def bundles(config: Config, url: str) -> Service:
    """With an event loop of its own; its threads start with the first jobs."""
    return mode(Bundles, config, Awaiting())


def mode(kind: type[Mode], config: Config, *workers: Worker[Any]) -> Service:
    """Make a way of executing, with one queue."""
    made = kind(Outbox(), 0)
    made.prepare(workers)
    made.meet([made], workers)
    made.lane(Board.make([4], 2, 16).lane(0, 0, 0), 4, lambda: None)
    return made


def notes(config: Config, url: str) -> Service:
    made = Notes(lambda: db.session(config, url, "progress"))
    made.take(1, Note(1, 0.5, "half"))  # so that there is something to do
    return made


def scribe(config: Config, url: str) -> Service:
    keeping.within(print, is_async=False)  # the application has such a kind
    made = Scribe("info", lambda: db.session(config, url, "logs"))
    told = Transcript(Job.of(MailArgs()), made.take)
    told.log(0.0, "info", "shop", "so that there is something to do")
    return made


def forwarder(config: Config, url: str) -> Service:
    return Forwarder(config, lambda: db.session(config, url, "events"))


def producer(config: Config, url: str) -> Service:
    around = process_of(config, url)
    return Producer(around, {}, lambda: db.session(config, url, "producer"))


def singletons(config: Config, url: str) -> Service:
    return Singletons(config, url, {"one": lambda handle: handle.wait(60.0), "two": lambda handle: None})


def stacks(config: Config, url: str) -> Service:
    around = process_of(config, url)
    made = Stacks(1, around.modes, Held(around), lambda: db.session(config, url, "stacks"))
    made.ask()  # so that there is something to do
    return made


def telling(config: Config, url: str) -> Service:
    return Telling(process_of(config, url).desk, lambda: 7)


def vitals(config: Config, url: str) -> Vitals:
    config = replace(config, procs=1)
    return Vitals(config, Board.make([16], 2, 16), lambda: None, lambda: 0, Maintainer(config, url), Manager())


def port(config: Config, url: str) -> Service:
    return Port("127.0.0.1:0", vitals(config, url))


def watchdog(config: Config, url: str) -> Service:
    return Watchdog(process_of(config, url).modes, Outbox(), config.timeout_grace)


def process_of(config: Config, url: str) -> Surroundings:
    """Make the parts of a worker process that need each other, with one queue and no thread."""
    shared, outbox = Board.make([4], 2, ring_size(config)), Outbox()
    executing = Threads(outbox, 0)
    lane = executing.lane(shared.lane(0, 0, 0), 4, lambda: None)
    feed = Feed(0, "default", [lane])
    made = Completer(config, outbox, lambda: db.session(config, url, "completer"), shared.desk(0))
    return Surroundings(config, Seat(1, *os.pipe()), shared, shared.desk(0), [feed], outbox, made, [executing])


def elector(config: Config, url: str) -> Service:
    return Elector(config, url, [Candidacy("leader:stress", lambda *_: None, lambda *_: None)])


MAKERS: dict[type[Service], Callable[[Config, str], Service]] = {
    Apart: apart,
    Away: away,
    Bundles: bundles,
    Completer: completer,
    Elector: elector,
    Forwarder: forwarder,
    Inboxes: inboxes,
    Listener: listener,
    Loop: loop,
    Maintainer: maintainer,
    Notes: notes,
    Port: port,
    Producer: producer,
    Recovery: recovery,
    Registrar: registrar,
    Scribe: scribe,
    Singletons: singletons,
    Stacks: stacks,
    Telling: telling,
    Threads: threads,
    Vitals: vitals,
    Watchdog: watchdog,
}
"""How each service is made; a class that inherits from Service has a line here."""

ENDED_BEFORE = {Away, Inboxes, Telling, Vitals, Watchdog, Recovery}
"""Services without a thread of their own, and one whose thread may be done as soon as it has begun."""

INSIDE = {
    "Threaded": "the services that are one thread inherit from it",
    "Track": "a term starts and ends its tracks",
    "Watcher": "fastq top starts it, and ends it with itself",
    "Term": "it begins and ends with a lease: the maintainer has its terms",
    "Executor": "the mode has its executors",
    "BundleSlot": "the same",
    "Runner": "the singletons of a process have their runners",
}
"""Classes that start threads and are no services: who ends those threads."""


@pytest.fixture
def broken(monkeypatch):
    """Give the errors that threads have ended by."""
    errors = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


def classes() -> list[ast.ClassDef]:
    """Return all classes of the package, but for those that a test uses without their threads."""
    paths = (path for path in FASTQ.rglob("*.py") if path.parent.name != "testing")
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def ours():
    return {thread for thread in threading.enumerate() if thread.name.startswith("fastq")}


def calls_of(service: Service, generator: random.Random) -> list[Callable[[], object]]:
    """Return some of what may be asked of a service at any time."""
    soon = time.monotonic() + 5.0
    known: list[Callable[[], object]] = [
        service.stop,
        lambda: service.finish(soon),
        service.tick,
        lambda: service.working,
        lambda: service.ended,
        lambda: service.owes,
        lambda: list(service.watched()),
    ]
    return generator.choices(known, k=CALLS)


def stress(service: Service, generator: random.Random) -> list[BaseException]:
    """Call it from ten threads at once, one of which starts it; return what was raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def call(calls: list[Callable[[], object]]) -> None:
        barrier.wait()
        try:
            for each in calls:
                each()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells
            errors.append(error)

    lists = [calls_of(service, generator) for _ in range(THREADS)]
    lists[0].insert(generator.randrange(CALLS + 1), service.start)
    threads = [threading.Thread(target=call, args=(calls,)) for calls in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def end(service: Service) -> None:
    """Do what a process does at its end: tick until the part has ended, and finish it when nothing works in it any more."""
    wait_for(lambda: service.tick() or not service.working, what="the end of its work")
    service.finish(time.monotonic() + 5.0)
    wait_for(lambda: service.tick() or service.ended, what="its end")


def test_every_service_is_under_stress():
    bases = {node.name: {ast.unparse(base) for base in node.bases} for node in classes()}
    services = {"Service"}
    while more := {name for name, of in bases.items() if of & services} - services:
        services |= more

    assert services - {"Service", "Threaded", "Mode"} == {kind.__name__ for kind in MAKERS}


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_no_order_of_calls_breaks_it_or_leaves_anything_behind(kind, database, connection, broken):
    config, before = configured(database_url=database, lease_ttl=2.0), ours()
    generator = random.Random(20_261_119)
    raised: list[BaseException] = []

    for _ in range(CYCLES):
        service = MAKERS[kind](config, database)
        raised += stress(service, generator)
        service.stop()
        end(service)

    assert (raised, broken) == ([], [])
    wait_for(lambda: ours() <= before, what="the end of its threads")
    sessions = "select application_name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    wait_for(lambda: connection.execute(sessions) == [], what="the end of its sessions")


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_one_that_was_not_started_has_ended(kind, database):
    service = MAKERS[kind](configured(database_url=database), database)

    service.stop()
    service.finish(time.monotonic())

    assert service.ended
    assert list(service.watched()) == []


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_one_that_works_ends_when_it_is_told_to(kind, database, broken):
    service = MAKERS[kind](configured(database_url=database, lease_ttl=2.0), database)
    service.start()
    wait_for(lambda: not service.ended or kind in ENDED_BEFORE, what="its start")

    service.stop()
    end(service)

    assert broken == []


def test_a_class_that_starts_threads_is_a_service_or_somebody_ends_them():
    starting = {node.name for node in classes() if "threading.Thread(" in ast.unparse(node)}

    assert starting - {kind.__name__ for kind in MAKERS} == set(INSIDE)
