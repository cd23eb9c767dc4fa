"""Every service under stress: ten threads call whatever a service may be asked, in any order, at any time, fifty times over.

A service of a process is made, started once, and taken down by `stop` and `finish` (fastq/service.py). Nothing that its contract
allows may raise, in the thread that calls or in one of its own, nor leave a thread or a session behind.
"""

import ast
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastq import Config
from fastq.board import Board
from fastq.host.listener import Listener
from fastq.host.recovery import Recovery
from fastq.host.registrar import Registrar
from fastq.lead.maintainer import Maintainer
from fastq.leases.elector import Candidacy, Elector
from fastq.service import Service
from tests.db.leases import configured
from tests.helpers import wait_for

THREADS, CYCLES, CALLS = 10, 50, 8
FASTQ = Path(__file__).parent.parent.parent / "fastq"


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


def elector(config: Config, url: str) -> Service:
    return Elector(config, url, [Candidacy("leader:stress", lambda *_: None, lambda *_: None)])


MAKERS: dict[type[Service], Callable[[Config, str], Service]] = {
    Elector: elector,
    Listener: listener,
    Maintainer: maintainer,
    Recovery: recovery,
    Registrar: registrar,
}
"""How each service is made; a class that inherits from Service has a line here."""

INSIDE = {
    "Track": "a term starts and ends its tracks",
    "Term": "it begins and ends with a lease: the maintainer has its terms",
    "Producer": "a worker process has it",
    "Completer": "a worker process has it",
    "Executor": "a worker process has it",
    "Loop": "a worker process has it",
    "Runner": "a worker process has it",
}
"""Classes that start threads and are no services: who ends those threads."""


@pytest.fixture
def broken(monkeypatch):
    """Give the errors that threads have ended by."""
    errors = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


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


def test_every_service_is_under_stress():
    def below(kind: type[Service]) -> set[type[Service]]:
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    assert {kind for kind in below(Service) if kind.__module__.startswith("fastq.")} - {Service} == set(MAKERS)


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_no_order_of_calls_breaks_it_or_leaves_anything_behind(kind, database, connection, broken):
    config, before = configured(database_url=database, lease_ttl=2.0), ours()
    generator = random.Random(20_261_119)
    raised: list[BaseException] = []

    for _ in range(CYCLES):
        service = MAKERS[kind](config, database)
        raised += stress(service, generator)
        service.stop()
        service.finish(time.monotonic() + 5.0)
        wait_for(lambda service=service: service.ended, what="its end")

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
    wait_for(lambda: not service.ended or kind is Recovery, what="its start")

    service.stop()
    service.finish(time.monotonic() + 5.0)

    wait_for(lambda: service.ended, what="its end")
    assert broken == []


def test_a_class_that_starts_threads_is_a_service_or_somebody_ends_them():
    starting = set()
    for path in FASTQ.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "threading.Thread(" in ast.unparse(node):
                starting.add(node.name)

    assert starting - {kind.__name__ for kind in MAKERS} == set(INSIDE)
