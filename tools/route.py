"""Count the files that the way of one job crosses, from enqueue to archive: `python tools/route.py [--functions]`.

It starts a real `fastq run` with one process, on the server of FASTQ_DATABASE_URL or on an embedded one of its own. It works a
few jobs, so that all sessions are open and all statements prepared, and then follows one job after the other by `sys.setprofile`:
in the program that enqueues it, in the supervisor (hint, wake-up), in the producer, the executor and the completer. Each function
counts once, where it is called first, in the order in which the job meets it. Of that list it counts:

    files       the modules of fastq/ that it names
    changes     how often the next function stands in another file than the one before
    back        how many of these changes lead to a file that was left before

So it is what somebody opens who follows a job with a debugger. Of several jobs the one with the fewest functions is shown: what
others met beside were ticks and beats. A function that was already running when the job came, such as the loop of an executor, is
not called anew and not listed. This program is for those who build fastq; nothing that a user runs needs it.
"""

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parent.parent
WARM, FOLLOWED = 20, 15
PATIENCE = 60.0
AFTERWARDS = 0.05  # s in which the completer counts a job whose row is in the archive: it takes some hundred microseconds
STEPS = {  # the thread that goes each step, by the beginning of its name, in the order of the way
    "enqueue": ("MainThread of the program",),
    "wake": ("fastq listener", "MainThread of the supervisor"),
    "claim": ("fastq producer",),
    "execute": ("fastq executor",),
    "complete": ("fastq completer",),
}
SENDS = {"run", "run_one", "run_blobs", "run_many"}  # methods of a session that are given a statement's name first


class Tracer:
    """What one process has called while the switch was on; each function once, where a thread calls it first."""

    def __init__(self, folder: Path, package: Path, main: str) -> None:
        self._file = folder / f"calls-{os.getpid()}.jsonl"
        self._folder = folder
        self._package = f"{package}/"
        self._main = main
        with (folder / "switch").open("r+b") as file:
            self._switch = mmap.mmap(file.fileno(), 1)
        self._lock = threading.Lock()

    def follow_all(self) -> None:
        """Follow this thread and all that start later."""
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of a function of ours."""
        if event != "call" or not (number := self._switch[0]):
            return
        code = frame.f_code
        if not code.co_filename.startswith(self._package) or code.co_name.startswith("<"):
            return
        thread = threading.current_thread().name
        call = {
            "job": number,
            "thread": self._main if thread == "MainThread" else thread,
            "file": code.co_filename.removeprefix(self._package),
            "function": code.co_qualname,
            "lines": len({line for *_, line in code.co_lines() if line}),
            "statement": _statement(frame) if code.co_name in SENDS else None,
        }
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps(call) + "\n")


def _statement(frame: FrameType) -> str | None:
    names = frame.f_code.co_varnames
    given = frame.f_locals.get(names[1]) if len(names) > 1 else None
    return given if isinstance(given, str) and given.replace("_", "").isalnum() else None


APP = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tools!r})
from route import Tracer
from fastq import Registry, Worker
from route_args import Once
registry = Registry()

@registry.register
class OnceWorker(Worker[Once]):
    def work(self, job):
        return None

import fastq
main = "MainThread of the supervisor" if "run" in sys.argv else "MainThread of a child"
Tracer(Path({folder!r}), Path(fastq.__file__).parent, main).follow_all()
"""
ARGS = """
from dataclasses import dataclass
from fastq import Args

@dataclass
class Once(Args, kind="once"):
    number: int
"""


def follow(folder: Path) -> None:
    """Enqueue one job among real processes and follow it; the calls are in the folder afterwards."""
    import fastq  # noqa: PLC0415 - of the tree that is measured
    from fastq import Client  # noqa: PLC0415

    sys.path.insert(0, str(folder))
    (folder / "route_args.py").write_text(ARGS)
    (folder / "route_app.py").write_text(APP.format(tools=str(HERE.parent), folder=str(folder)))
    (folder / "switch").write_bytes(b"\0")
    from route_args import Once  # noqa: PLC0415 - just written

    command = [sys.executable, "-m", "fastq", "run", "route_app:registry", "--app-dir", str(folder), "--procs", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            with Client() as client:
                client.enqueue_many([Once(number) for number in range(WARM)])
                for number in range(WARM):
                    _wait(client, client.enqueue(Once(number)))
                with (folder / "switch").open("r+b") as file:
                    switch = mmap.mmap(file.fileno(), 1)
                tracer = Tracer(folder, Path(fastq.__file__).parent, "MainThread of the program")
                for number in range(1, FOLLOWED + 1):
                    switch[0] = number
                    sys.setprofile(tracer)
                    job = client.enqueue(Once(WARM))
                    sys.setprofile(None)
                    _wait(client, job)
                    time.sleep(AFTERWARDS)
                    switch[0] = 0
        finally:
            program.terminate()


def _embedded(stack: ExitStack) -> str:
    """Start a server with our schema until the end of this program, and return its URL."""
    from fastq.postgres import embedded  # noqa: PLC0415 - of this tree alone
    from fastq.schema.migrate import migrate  # noqa: PLC0415

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    server = stack.enter_context(embedded.start(folder))
    migrate(server.url)
    return str(server.url)


def _wait(client: Any, job: int) -> None:
    until = time.monotonic() + PATIENCE
    while (found := client.get(job)) is None or found.state != "completed":
        if time.monotonic() > until:
            raise SystemExit(f"job {job} was not completed within {PATIENCE:.0f} s")
        time.sleep(0.02)


def route(calls: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the functions of each step, each once, in the order in which the job meets them."""
    seen: set[tuple[str, str]] = set()
    steps: dict[str, list[dict[str, Any]]] = {}
    for step, threads in STEPS.items():
        for call in (call for thread in threads for call in calls if call["thread"].startswith(thread)):
            name = (call["file"], call["function"])
            if name not in seen:
                seen.add(name)
                steps.setdefault(step, []).append(call)
    return steps


def shortest(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the way with the fewest functions of all jobs that were followed to the end."""
    calls = [json.loads(line) for path in sorted(folder.glob("calls-*.jsonl")) for line in path.read_text().splitlines()]
    ways = [route([call for call in calls if call["job"] == number]) for number in range(1, FOLLOWED + 1)]
    return min((way for way in ways if way.keys() == STEPS.keys()), key=lambda way: sum(map(len, way.values())))


def counted(calls: list[dict[str, Any]]) -> dict[str, int]:
    """Count files, changes of file, and changes that lead back."""
    files = [call["file"] for call in calls]
    been, back = set(files[:1]), 0
    for before, after in pairwise(files):
        back += after != before and after in been
        been.add(after)
    return {
        "files": len(set(files)),
        "functions": len(calls),
        "lines": sum(call["lines"] for call in calls),
        "changes": sum(before != after for before, after in pairwise(files)),
        "back": back,
    }


def main() -> None:
    """Follow jobs and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", action="store_true", help="list the functions, too")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "FASTQ_DATABASE_URL" not in os.environ:
            os.environ["FASTQ_DATABASE_URL"] = _embedded(stack)
        follow(folder)
        steps = shortest(folder)
    rows = [*steps.items(), ("all", [call for calls in steps.values() for call in calls])]
    print(f"{'step':10}{'files':>11}{'functions':>11}{'lines':>11}{'changes':>11}{'back':>11}")
    for step, way in rows:
        print(f"{step:10}" + "".join(f"{value:>11}" for value in counted(way).values()))
    for step, way in steps.items() if given.functions else ():
        for call in way:
            sent = f"  -> {call['statement']}.sql" if call["statement"] else ""
            print(f"{step:10}{call['file']:34}{call['function']}{sent}")


if __name__ == "__main__":
    main()
