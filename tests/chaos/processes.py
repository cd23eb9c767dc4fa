"""Supervisors as real processes: start one, find its descendants in /proc, kill it or one of them, watch them go."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.chaos.checker import Fault
from tests.chaos.ledger import now
from tests.helpers import process_exists, wait_for

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 30.0
"""Seconds to wait for a worker process to kill; the longest pause of the supervisor before it replaces one."""

ORPHANS_LEAVE_WITHIN = 2.0
"""Seconds that a descendant may outlive its supervisor."""


class Host:
    """One supervisor at a time and whatever hangs below it; the next one starts at once when it is killed."""

    def __init__(
        self, procs: int, concurrency: int, environment: dict[str, str], folder: Path, app: str = "tests.chaos.app:registry"
    ) -> None:
        self._command = [sys.executable, "-m", "fastq", "run", app]
        self._command += ["--procs", str(procs), "--queue", f"default={concurrency}"]
        self._environment = environment
        self._log_path = folder / "supervisors.log"
        self._log = self._log_path.open("ab")
        self.faults: list[Fault] = []
        self.orphaned: list[float] = []  # seconds that the last descendant outlived each killed supervisor
        self.start()

    def start(self) -> None:
        """Start a supervisor."""
        self._supervisor = subprocess.Popen(
            self._command, cwd=ROOT, env=self._environment, stdout=self._log, stderr=self._log, start_new_session=True
        )

    @property
    def pid(self) -> int:
        """Return the pid of the supervisor."""
        return self._supervisor.pid

    @property
    def alive(self) -> bool:
        """Tell whether the supervisor runs; one that gave up will start nobody again."""
        return self._supervisor.poll() is None

    def workers(self) -> list[int]:
        """Return the pids of the worker processes below the supervisor, which must be alive."""
        if not self.alive:
            last = self._log_path.read_text().splitlines()[-20:]
            raise AssertionError("the supervisor has ended; its last words:\n" + "\n".join(last))
        return [pid for pid in descendants(self._supervisor.pid) if title(pid).startswith("fastq: worker")]

    def busy(self) -> list[int]:
        """Return the pids of those that execute jobs, as they show it once a second."""
        return [pid for pid in self.workers() if " busy " in title(pid) and " busy 0/" not in title(pid)]

    def kill_worker(self, dice: random.Random, *, busy: bool = False) -> None:
        """SIGKILL one worker process, or one that executes jobs, and note when it was gone."""
        pid = dice.choice(wait_for(self.busy if busy else self.workers, PATIENCE, "a worker process to kill"))
        at = now()
        os.kill(pid, signal.SIGKILL)
        self.faults.append(Fault("worker", at, pid, wait_until_gone([pid], PATIENCE)))

    def kill_supervisor(self, *, whole: bool = False) -> None:
        """SIGKILL the supervisor, start the next one, and note when each descendant of the first was gone.

        With `whole` its descendants are killed at the same moment: a host that is lost.
        """
        victim, below = self._supervisor, descendants(self._supervisor.pid)
        at = now()
        for pid in below if whole else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.kill()
        victim.wait()
        dead_at = now()
        self.start()
        gone = wait_until_gone(below, PATIENCE)
        self.orphaned.append((max(gone.values(), default=at) - at) / 1e9)
        self.faults.append(Fault("supervisor", at, victim.pid, {victim.pid: dead_at, **gone}))

    def stop(self, timeout: float = 60.0) -> int | None:
        """Ask the supervisor to stop in order; return its exit code, None if it had to be killed."""
        self._supervisor.send_signal(signal.SIGTERM)
        try:
            code: int | None = self._supervisor.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        self.clear()
        return code

    def clear(self) -> None:
        """Leave no process behind."""
        below = descendants(self._supervisor.pid)
        if self._supervisor.poll() is None:
            self._supervisor.kill()
            self._supervisor.wait()
        wait_until_gone(below, PATIENCE)
        self._log.close()


def descendants(root: int) -> list[int]:
    """Return the pids of all processes below one."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children[int(fields[1])].append(int(entry.name))
    found, unseen = [], [root]
    while unseen:
        below = children[unseen.pop()]
        found += below
        unseen += below
    return found


def title(pid: int) -> str:
    """Return what a process calls itself; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until_gone(pids: list[int], timeout: float) -> dict[int, int]:
    """Wait until none of these processes lives; return when each was seen dead."""
    gone: dict[int, int] = {}
    give_up = time.monotonic() + timeout
    while left := [pid for pid in pids if pid not in gone]:
        gone |= {pid: now() for pid in left if not process_exists(pid)}
        if time.monotonic() > give_up:
            raise AssertionError(f"processes {left} still live {timeout} s after they should have died")
        time.sleep(0.001)
    return gone
