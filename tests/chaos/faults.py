"""The rows of the failover table: what is done to the leader, and how long nobody leads."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fastq.enqueue.client import Client
from fastq.schema.migrate import migrate
from tests.chaos import witness
from tests.chaos.app import Nap
from tests.chaos.candidates import PATIENCE, Candidates, Held
from tests.chaos.load import Load
from tests.chaos.result import Result
from tests.chaos.servers import Pooler, Servers
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

GRACEFUL_BOUND = 0.25  # s
SLACK = 0.5  # s beyond the ttl until somebody else leads


@dataclass
class Scene:
    """Candidates on a database, and a fault. `strike` may take long; `heal` leaves candidates that can be struck again."""

    url: str
    candidates: Candidates
    strike: Callable[[int], None]
    heal: Callable[[int], None]
    bound: float
    prepare: Callable[[int], None] = lambda place: None
    same_may_lead: bool = False  # the fault is not the leader's end: a renewal, or a new term of the same supervisor, is good
    pooled: bool = False
    struck_at: list[float] = field(default_factory=list)  # wall time from which the fault was at work; empty: the eye sees it
    back_at: list[float] = field(default_factory=list)  # monotonic: when what was away was back, if the eye cannot see it


def measure(name: str, scene: Scene, cycles: int, seed: int = 0) -> Result:
    """Strike the leader again and again; tell how long it took until somebody led."""
    dice, eye, candidates = random.Random(seed), scene.candidates.eye, scene.candidates
    result = Result(name, cycles, scene.bound)
    with Load(scene.url), ThreadPoolExecutor(1) as hand:
        for _ in range(cycles):
            candidates.await_ready()
            await_work(scene)
            place = candidates.leader()
            time.sleep(0.1 + dice.random() * candidates.ttl * 0.5)  # any moment between two renewals
            scene.prepare(place)
            before = eye.until(lambda held: held.pid is not None)
            place = candidates.leader()
            clock, at = time.time(), time.monotonic()
            blow = hand.submit(scene.strike, place)
            try:
                after = eye.until(lambda held, before=before, clock=clock: leads(scene, before, clock, held))
                seen = time.monotonic()
            finally:
                blow.result()
            back = max([moment for moment in (eye.back_at, *scene.back_at) if moment is not None])
            result.add(seen - at, max(0.0, back - at), changed=after.pid != before.pid)
            scene.heal(place)
    testimony = witness.hear(scene.url, pooled=scene.pooled)
    result.testify(testimony, eye.terms)
    return result


def await_work(scene: Scene) -> None:
    """Wait until a chore writes, from now on: a leader that does nothing cannot be caught at doing it too late."""
    done = witness.hear(scene.url, pooled=scene.pooled).writes
    wait_for(lambda: witness.hear(scene.url, pooled=scene.pooled).writes > done, 20, "a write of a chore")


def leads(scene: Scene, before: Held, clock: float, held: Held) -> bool:
    """Tell whether somebody leads who has shown it after the fault, which was ordered at that time."""
    if held.pid is None:
        return False
    if not scene.same_may_lead:
        return held.term > before.term and held.pid != before.pid
    struck_at = max([*scene.struck_at, scene.candidates.eye.lost_at])
    return struck_at >= clock and (held.term > before.term or held.renewed_at > struck_at)


@contextmanager
def database(servers: Servers, name: str, *, any_server: bool = False) -> Iterator[str]:
    """Give a fresh, migrated, watched database."""
    url = servers.create(name)
    migrate(url)
    witness.install(url)
    yield servers.any_url_of(name) if any_server else url


def graceful(url: str, folder: Path, ttl: float) -> Scene:
    """SIGTERM, while jobs run that take longer than the handover may."""
    candidates = Candidates(url, folder, ttl)

    def prepare(place: int) -> None:
        with Client(url) as client:
            client.enqueue_many([Nap(0.8)] * 4)
        wait_for(lambda: execute(url, "select count(*) from fastq.job where state = 'running'") != [(0,)], 10, "jobs to drain")

    def heal(place: int) -> None:
        candidates.places[place].bury()
        candidates.replace(place)

    def strike(place: int) -> None:
        candidates.places[place].signal(signal.SIGTERM)

    return Scene(url, candidates, strike, heal, GRACEFUL_BOUND, prepare)


def kill(url: str, folder: Path, ttl: float) -> Scene:
    """SIGKILL of the leading supervisor."""
    candidates = Candidates(url, folder, ttl)
    return Scene(url, candidates, lambda place: candidates.places[place].signal(signal.SIGKILL), candidates.replace, ttl + SLACK)


def freeze(url: str, folder: Path, ttl: float) -> Scene:
    """SIGSTOP; SIGCONT when another leads, and some time after."""
    candidates = Candidates(url, folder, ttl)

    def heal(place: int) -> None:
        time.sleep(ttl)
        found_out = candidates.places[place].said("lease.lost")
        candidates.places[place].signal(signal.SIGCONT)
        wait_for(lambda: candidates.places[place].said("lease.lost") > found_out, PATIENCE, "the old leader to find out")

    return Scene(url, candidates, lambda place: candidates.places[place].signal(signal.SIGSTOP), heal, ttl + SLACK)


def cut(url: str, folder: Path, ttl: float) -> Scene:
    """A black hole between the leader and Postgres."""
    wires = [Proxy(url), Proxy(url)]
    candidates = Candidates(url, folder, ttl, route=lambda place, url: wires[place].url_of(url))

    def heal(place: int) -> None:
        time.sleep(ttl)
        wires[place].restore()
        time.sleep(0.3)

    return Scene(url, candidates, lambda place: wires[place].black_hole(), heal, ttl + SLACK)


def frozen_peer(url: str, folder: Path, ttl: float) -> Scene:
    """SIGSTOP of the backend that renews the lease: the connection stands and nothing answers."""
    candidates = Candidates(url, folder, ttl)
    scene = Scene(url, candidates, lambda place: None, lambda place: None, ttl + SLACK, same_may_lead=True)
    frozen: list[int] = []

    def strike(place: int) -> None:
        find = "select pid, state from pg_stat_activity where usename = %s and application_name = 'fastq elector'"
        while True:  # one that is at a statement has the lease's row locked, and nobody could take it
            ((pid, _),) = execute(url, find, candidates.places[place].role)
            os.kill(int(str(pid)), signal.SIGSTOP)
            if execute(url, find, candidates.places[place].role) == [(pid, "idle")]:
                frozen.append(int(str(pid)))
                scene.struck_at[:] = [time.time()]
                return
            os.kill(int(str(pid)), signal.SIGCONT)

    def heal(place: int) -> None:
        time.sleep(ttl)
        os.kill(frozen.pop(), signal.SIGCONT)
        time.sleep(0.3)

    scene.strike, scene.heal = strike, heal
    return scene


def backend_crash(url: str, folder: Path, ttl: float) -> Scene:
    """SIGKILL of a backend of the leader: Postgres ends all sessions and recovers."""
    candidates = Candidates(url, folder, ttl)

    def strike(place: int) -> None:
        find = "select pid from pg_stat_activity where usename = %s and application_name = 'fastq listener'"
        ((pid,),) = execute(url, find, candidates.places[place].role)
        os.kill(int(str(pid)), signal.SIGKILL)

    return Scene(url, candidates, strike, lambda place: None, ttl + SLACK, same_may_lead=True)


def server_crash(url: str, folder: Path, ttl: float, servers: Servers) -> Scene:
    """SIGKILL of the postmaster, and a restart."""
    candidates = Candidates(url, folder, ttl)
    return Scene(url, candidates, lambda place: servers.crash(), lambda place: None, ttl + SLACK, same_may_lead=True)


def promotion(url: str, folder: Path, ttl: float, servers: Servers) -> Scene:
    """The primary is stopped, its standby promoted; everybody has a URL of both."""
    candidates = Candidates(url, folder, ttl)

    def strike(place: int) -> None:
        servers.promote()

    return Scene(
        url, candidates, strike, lambda place: None, ttl + SLACK, lambda place: servers.add_standby(), same_may_lead=True
    )


def pooler_restart(url: str, folder: Path, ttl: float, pooler: Pooler) -> Scene:
    """SIGKILL of PgBouncer in transaction mode, and a restart."""
    candidates = Candidates(
        url,
        folder,
        ttl,
        settings={"FASTQ_POLL_ONLY": "1", "FASTQ_POLL_INTERVAL": "0.25"},
        route=lambda place, url: pooler.url,
        pooled=True,
    )
    scene = Scene(url, candidates, lambda place: None, lambda place: None, ttl + SLACK, same_may_lead=True, pooled=True)

    def strike(place: int) -> None:
        pooler.kill()
        scene.struck_at[:] = [time.time()]
        pooler.start()
        scene.back_at[:] = [time.monotonic()]

    scene.strike = strike
    return scene
