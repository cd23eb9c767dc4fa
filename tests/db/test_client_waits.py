"""How long a client waits: for a lock, for a network that forgets it, for a server that restarts; and what it says then."""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Config
from fastq.errors import DatabaseUnavailable
from fastq.postgres import embedded
from fastq.postgres.pool import pool, pool_async
from fastq.schema.migrate import migrate
from tests.helpers import Stopwatch, execute, wait_for
from tests.proxy import Proxy

SHORT = 0.5  # s; FASTQ_STATEMENT_TIMEOUT
LONG = 3.0  # s; where the server is to be first, which has nine tenths of it: its answer then has 0.3 s to arrive
WAITING = "select count(*) from pg_stat_activity where application_name = 'fastq client' and datname = current_database()"


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


class Awaited:
    """An AsyncClient whose methods are called like a Client's, all on one event loop."""

    def __init__(self, **settings):
        self._client = AsyncClient(**settings)
        self._runner = asyncio.Runner()
        self._closed = False

    def enqueue(self, args):
        return self._runner.run(self._client.enqueue(args))

    def enqueue_copy(self, items):
        return self._runner.run(self._client.enqueue_copy(items))

    def close(self):
        if not self._closed:
            self._runner.run(self._client.aclose())
            self._runner.close()
        self._closed = True


@pytest.fixture(params=[pytest.param(Client, id="blocking"), pytest.param(Awaited, id="async", marks=pytest.mark.further)])
def client_of(request):
    """Give a function that makes a client of a database."""
    made = []

    def make(url, **settings):
        made.append(request.param(config=Config(database_url=url, **settings)))
        return made[-1]

    yield make
    for client in made:
        client.close()


def count(url):
    [(number,)] = execute(url, "select count(*) from fastq.job")
    return number


@pytest.fixture
def wire(database):
    with Proxy(database) as wire:
        yield wire


def copy(client):
    client.enqueue_copy([SortArgs([])])


def one(client):
    client.enqueue(SortArgs([]))


@pytest.mark.parametrize("enqueue", [one, copy])
def test_an_enqueue_behind_a_lock_ends_with_the_statement_timeout_and_stores_nothing(enqueue, client_of, database):
    client = client_of(database, statement_timeout=LONG)
    with psycopg.connect(database) as holder:
        holder.execute("lock table fastq.job in access exclusive mode")

        with pytest.raises(DatabaseUnavailable, match=r"nothing was stored: .*FASTQ_STATEMENT_TIMEOUT"):
            enqueue(client)

        waiting = WAITING + " and wait_event_type = 'Lock'"
        assert execute(database, waiting) == [(0,)]
    enqueue(client)
    assert count(database) == 1


def test_an_enqueue_through_a_pooler_gives_up_behind_a_lock_too(client_of, database):
    client = client_of(database, statement_timeout=SHORT, poll_only=True)
    with psycopg.connect(database) as holder:
        holder.execute("lock table fastq.job in access exclusive mode")

        with pytest.raises(DatabaseUnavailable, match=r"has not answered for 0\.5 s \(FASTQ_STATEMENT_TIMEOUT\)"):
            client.enqueue(SortArgs([]))


@pytest.mark.parametrize("enqueue", [one, copy])
def test_an_enqueue_whose_answer_never_comes_ends_with_the_statement_timeout(enqueue, client_of, wire, database):
    client = client_of(wire.url, statement_timeout=SHORT)
    client.enqueue(SortArgs([]))
    wire.lose_all()

    with pytest.raises(DatabaseUnavailable, match=r"has not answered for 0\.5 s .* whether it did .* is not known"):
        enqueue(client)

    enqueue(client)
    assert count(database) == 2


def test_a_connection_that_was_forgotten_while_it_rested_costs_no_enqueue(client_of, wire, database, monkeypatch):
    for side in (pool, pool_async):
        monkeypatch.setattr(side, "RESTED", 0.0)
        monkeypatch.setattr(side, "CHECK", 0.2)
    client = client_of(wire.url)
    client.enqueue(SortArgs([]))
    wire.lose_all()

    client.enqueue(SortArgs([]))

    assert count(database) == 2


def test_what_rests_goes_with_a_connection_that_is_lost(database, wire):
    with Client(config=Config(database_url=wire.url, statement_timeout=SHORT)) as client:
        here = client._here()
        with here.connection(), here.connection(), here.connection():
            pass
        wire.lose_all()

        with pytest.raises(DatabaseUnavailable, match="has not answered"):
            client.enqueue(SortArgs([]))
        client.enqueue(SortArgs([]))
        assert wire.accepted == 4


def test_a_copy_may_take_longer_than_a_statement(client_of, database):
    client = client_of(database, statement_timeout=SHORT)

    def items():
        began = Stopwatch()
        while began.clock() < 3 * SHORT:
            yield SortArgs(["x" * 1000])

    assert client.enqueue_copy(items()) == count(database)


@pytest.fixture
def own_server():
    """Give a server that the test may stop and start."""
    folder = Path(tempfile.mkdtemp(prefix="fastq-client-", dir="/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"))
    folder.chmod(0o711)
    with embedded.start(folder, settings={"fsync": "off"}) as server:
        migrate(server.url)
        yield server
    shutil.rmtree(folder)


def end(server):
    """End the server at once, and wait until it is gone."""
    pid = int((server.data / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGQUIT)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 10)


def test_an_enqueue_during_a_restart_goes_through_as_soon_as_the_server_is_back(client_of, own_server):
    client = client_of(own_server.url)
    client.enqueue(SortArgs([]))
    end(own_server)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (client.enqueue(SortArgs([])), done.set()))
    thread.start()
    assert not done.wait(3.5)  # of intervals that double from a second on the next one takes four

    with embedded.start(own_server.folder) as back:
        watch = Stopwatch()
        assert done.wait(20)
        assert watch.idle() < 1
        thread.join()
        assert count(back.url) == 2


def test_closing_does_not_wait_for_a_server_that_is_away(client_of, own_server):
    client = client_of(own_server.url)
    for _ in range(2):  # the second one's wake-up waits for the close
        client.enqueue(SortArgs([]))
    end(own_server)

    watch = Stopwatch()
    client.close()

    assert watch.idle() < pool.WAIT / 2


def test_who_finds_no_connection_while_the_server_is_away_is_told_that(own_server, monkeypatch):
    monkeypatch.setattr(pool, "MAX_SIZE", 1)
    monkeypatch.setattr(pool, "WAIT", 0.5)
    client = Client(own_server.url)
    client.enqueue(SortArgs([]))
    end(own_server)

    told = []

    def enqueue():
        try:
            client.enqueue(SortArgs([]))
        except DatabaseUnavailable as error:
            told.append(str(error))

    threads = [threading.Thread(target=enqueue) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told) == 3
    assert not any("in use" in text for text in told), told
