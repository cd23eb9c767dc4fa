"""Count the instructions that a job takes in Postgres: `python -m bench.instructions [JOBS [FOLDER]]`.

On a machine that others share, the CPU time of one and the same statement differs by a factor of two between minutes. How many
instructions it takes does not, so this is the figure to compare a statement with its next version by. valgrind's callgrind counts
them in an embedded Postgres, per backend, within PortalRun: planning and what the postmaster did are left out. It needs
`valgrind`, and half a minute; FOLDER keeps the counts, for `callgrind_annotate --inclusive=yes`. It says nothing of caches,
locks and disks; for those there is `fastq bench`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.adr import measure
from bench.adr.measure import BATCH, SCHEMA, claims, cleared, filled, parts
from fastq import Kind
from fastq.adapters import drivers
from fastq.enqueue import calls
from fastq.enqueue.copies import Copy
from fastq.errors import DatabaseUnavailable
from fastq.postgres import db, embedded
from fastq.schema.migrate import migrate
from fastq.work.codec import twin
from fastq.work.codec.claimed import Claimed

JOBS = 10_000
SINGLE = 10
"""A transaction for one job takes as much as that of some ten in one statement: so many times fewer are counted."""
NOOP: Kind[dict[str, object]] = Kind("noop", dict)
PATIENCE = 120.0
"""Seconds for the server to start, and for a backend to write its counts: it runs some fifty times slower than usual."""


@contextmanager
def counted(folder: Path) -> Iterator[str]:
    """Run an embedded server under callgrind and yield its URL; each backend writes its counts into the folder when it ends."""
    with embedded.start(folder) as server:
        url, data, owner = server.url, server.data, server.data.stat()
        binary = Path(f"/proc/{server.pid}/exe").readlink()
    counts = f"--callgrind-out-file={data}/counts.%p"
    command = ["valgrind", "--tool=callgrind", "--trace-children=yes", counts, binary, "-D", data]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=data, user=owner.st_uid, group=owner.st_gid, **quiet)
    try:
        until(lambda: connected(url))
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE)


def connected(url: str) -> bool:
    try:
        db.connect(url, role="instructions").close()
    except DatabaseUnavailable:
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a process under valgrind will do."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError(f"nothing came of it within {PATIENCE:g} s")
        time.sleep(0.1)


def count(url: str, folder: Path, work: Callable[[db.Connection], object]) -> int:
    """Do something on a session of its own and return the instructions that its backend took for it."""
    session = db.connect(url, role="instructions", schema=SCHEMA, timeout=PATIENCE)
    work(session)
    pid = session.backend_pid
    session.close()
    until(lambda: not Path(f"/proc/{pid}").exists())
    listing = ["callgrind_annotate", "--inclusive=yes", str(folder / "data" / f"counts.{pid}")]
    told = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    found = re.search(r"^\s*([\d,]+)[^\n]*:PortalRun\b", told, re.MULTILINE)
    assert found, "callgrind saw no statement: are the server's symbols there?"
    return int(found[1].replace(",", ""))


def completing(name: str, batches: list[Claimed]) -> Callable[[db.Connection], object]:
    """Make the completion of claimed batches."""

    def complete(session: db.Connection) -> None:
        for batch in batches:
            ids = twin.encode_ints(sorted(batch.ids))
            done, _ = session.run_blobs(name, [ids, twin.encode_ints([batch.claim])])
            assert done == len(batch)

    return complete


def enqueueing_singly(session: db.Connection) -> None:
    for number in range(measure.JOBS // SINGLE):
        call = calls.one({"n": number, "name": "somebody"}, NOOP, {}, BATCH)
        session.run(call.statement, *call.values, False, "fastq")


def enqueueing_many(session: db.Connection) -> None:
    for first in range(0, measure.JOBS, BATCH):
        call = calls.many([{"n": number, "name": "somebody"} for number in range(first, first + BATCH)], NOOP, {}, BATCH)
        assert call
        session.run(call.statement, *call.values, False, "fastq")


def copying(session: db.Connection) -> None:
    rows = Copy(({"n": number, "name": "somebody"} for number in range(measure.JOBS)), NOOP, {}, None, BATCH)
    drivers.copy(session.raw, SCHEMA, rows.columns, rows.blocks())


def main(jobs: int, keep: str = "") -> None:
    """Print instructions per job: of three ways to enqueue, of both ways to claim, and of both ways to complete."""
    measure.JOBS = jobs
    folder = Path(tempfile.mkdtemp(prefix="fastq-counted-", dir="/tmp"))
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with counted(folder) as url:
        connection = db.connect(url, role="instructions", schema=SCHEMA, timeout=PATIENCE)
        migrate(url, SCHEMA)
        [(version,)] = connection.execute("show server_version")
        print(f"Postgres {version}, {jobs:,} jobs, batches of {BATCH:,}: instructions per job")
        for name, enqueueing, times in (
            ("job_enqueue", enqueueing_singly, SINGLE),
            ("job_enqueue_many", enqueueing_many, 1),
            ("copy", copying, 1),
        ):
            cleared(connection)
            print(f"  {name:24s} {count(url, folder, enqueueing) * times / jobs:9,.0f}", flush=True)
        for claim, claiming, complete in (
            ("job_claim", claims, "job_complete"),
            ("job_claim_part", parts, "job_complete_archive"),
        ):
            filled(connection)
            connection.execute(f"vacuum analyze {SCHEMA}.job")
            batches: list[Claimed] = []
            spent = count(url, folder, lambda session, claiming=claiming, batches=batches: batches.extend(claiming(session)))
            print(f"  {claim:24s} {spent / jobs:9,.0f}", flush=True)
            print(f"  {complete:24s} {count(url, folder, completing(complete, batches)) / jobs:9,.0f}", flush=True)
        connection.close()
    for counts in (folder / "data").glob("counts.*") if keep else ():
        shutil.copy(counts, keep)
    shutil.rmtree(folder)


if __name__ == "__main__":
    if os.uname().sysname != "Linux" or not shutil.which("valgrind"):
        sys.exit("bench.instructions: it needs Linux and valgrind (apt-get install valgrind)")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS, *sys.argv[2:3])
