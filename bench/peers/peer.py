"""A peer: how it is installed, how it is set, and when its jobs have ended; and a peer as a system that cells are asked of.

`Peer` is data, one in each module of `adapters/`. `Beside` is the system that `fastq/bench/cells` asks: it starts the peer's
programs, which lie in `programs/`, as fastq's own are started. Each cell of a peer on Postgres begins with a new database.
"""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.peers import install
from bench.peers.servers import Redis, database_of, renew
from fastq.bench.cells.meters import Meters
from fastq.bench.cells.programs import Program
from fastq.bench.cost import postmaster
from fastq.postgres import db

GOROUTINES = "it has one way to work jobs, which is measured in the cell sleep"


@dataclass(frozen=True)
class Peer:
    """What is known of a peer. The `rate` is about what it works per second, which decides how many jobs a cell takes."""

    name: str
    language: str
    install: Callable[[], tuple[list[str], str]]
    program: str  # of programs/; none for Go, whose program is the command itself
    settings: Mapping[str, str]  # what is set, and what that is: shown with the result
    rate: int
    slots: int
    unfinished: str  # SQL, or Lua for Redis, that gives a row, or a number above 0, while a job is left
    all_cores: bool = False  # one program uses all cores: it is started once in a host, with the slots of all
    redis: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)  # cell -> why it cannot be asked


class Beside:
    """A peer as a system. The program that measures owns it, and its connections."""

    def __init__(self, peer: Peer, admin: db.Connection, url: str, procs: int, redis: Redis | None) -> None:
        self.peer, self.name, self.rate, self.slots, self.procs = peer, peer.name, peer.rate, peer.slots, procs
        self._command, self.version = peer.install()
        self._folder = install.NODE if peer.language == "Node.js" else install.PROGRAMS
        self._admin = admin
        self._database = f"peers_{peer.name}"
        self._url = redis.url if peer.redis and redis is not None else database_of(url, self._database)
        self._redis = redis if peer.redis else None
        self._connection: db.Connection | None = None
        if self._redis:
            self._meters = Meters([self._redis.pid], lambda: (redis.log_bytes(), 0))
        else:
            self._meters = Meters.of_postgres(admin, postmaster(admin))

    def empty(self) -> None:
        """Make its database anew."""
        if self._redis:
            self._redis.ask("flushall")
        else:
            self.close()
            renew(self._admin, self._database)
        with self._program({"verb": "setup", "queues": ["default"]}) as program:
            program.hear("done")

    def settle(self) -> None:
        """Vacuum as autovacuum would have done."""
        if not self._redis:
            self._here().execute("vacuum (analyze)")

    def unfinished(self) -> bool:
        """Ask whether a job is left."""
        if self._redis:
            return bool(self._redis.ask("eval", self.peer.unfinished, "0"))
        return bool(self._here().execute(self.peer.unfinished))

    def meters(self) -> Meters:
        """Return the meters of its server."""
        return self._meters

    def enqueuer(self, order: dict[str, Any]) -> Program:
        """Start a program that enqueues."""
        return self._program(order)

    def host(self, order: dict[str, Any]) -> list[Program]:
        """Start the programs of one host."""
        if self.peer.all_cores:
            return [self._program(order | {"slots": order["slots"] * order["procs"]})]
        return [self._program(order) for _ in range(order["procs"])]

    def close(self) -> None:
        """Close the connection to its database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _here(self) -> db.Connection:
        if self._connection is None:
            self._connection = db.connect(self._url, role="peers", pins={"search_path": "public"}, prepare=False, timeout=300.0)
        return self._connection

    def _program(self, order: dict[str, Any]) -> Program:
        command = [*self._command, str(self._folder / self.peer.program)] if self.peer.program else self._command
        errors = subprocess.DEVNULL if order.get("job") == "fail" else None  # some write a line for each job that fails
        return Program(command, order | {"database": self._url}, self._folder, errors)
