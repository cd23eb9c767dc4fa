"""Install peers into `build/peers`, each on first use: a venv, a folder of npm packages, a Go program.

Nothing enters fastq's own environment. What cannot be had on a machine raises `Absent` with the reason, which the table shows.
The sources of the programs are copied beside what they import (Node.js and Go look for packages from the file upwards).
"""

import functools
import json
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "peers"
PROGRAMS = Path(__file__).parent / "programs"
VENV = BUILD / "venv"
NODE = BUILD / "node"
GO = BUILD / "go"
PACKAGES = "graphile-worker", "pg-boss", "bullmq", "ioredis"
NEEDED, NEWER = (22, 12), "24"  # the Node.js that pg-boss needs, and the one that is installed where there is none
RUNTIME = f"node-{sys.platform}-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"  # on npm
TIMEOUT = 900  # s: the Go modules are compiled once, in minutes on a busy machine


class Absent(Exception):
    """A peer that cannot be had here, and why."""


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except FileNotFoundError as error:
        raise Absent(f"there is no {command[0]} on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{command[0]} did not end within {TIMEOUT} s") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        why = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise Absent(f"{Path(command[0]).name} {command[1]} failed: {why.strip()[:200]}")
    return done.stdout


def python(package: str, needs: tuple[int, int] = (3, 11)) -> tuple[list[str], str]:
    """Install a package of PyPI, for a Python that is new enough; return the beginning of a command, and the version."""
    found = _interpreter(needs)
    venv = VENV if found == sys.executable else VENV.with_name(f"venv-{needs[0]}.{needs[1]}")
    interpreter = venv / "bin" / "python"
    name = package.partition("[")[0]
    if not interpreter.exists():
        _run(found, "-m", "venv", str(venv))
    ask = f"import importlib.metadata as m; print(m.version({name!r}))"
    try:
        version = _run(str(interpreter), "-c", ask)
    except Absent:
        _run(str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", package)
        version = _run(str(interpreter), "-c", ask)
    path = f"{ROOT / 'fastq' / 'bench' / 'cells'}"  # for speak.py, which imports nothing of fastq
    return ["env", f"PYTHONPATH={path}", str(interpreter)], version.strip()


def _interpreter(needs: tuple[int, int]) -> str:
    """Return our own interpreter, or another one of this machine where a package needs a newer one."""
    if sys.version_info >= needs:
        return sys.executable
    for minor in range(needs[1], needs[1] + 4):
        with suppress(Absent):
            return _run(f"python{needs[0]}.{minor}", "-c", "import sys; print(sys.executable)").strip()
    raise Absent(f"it needs Python {needs[0]}.{needs[1]}, and this is {sys.version_info.major}.{sys.version_info.minor}")


def node(package: str, version: str = "latest", *more: str) -> tuple[list[str], str]:
    """Install packages of npm, and a Node.js that is new enough; return the beginning of a command, and the first's version."""
    NODE.mkdir(parents=True, exist_ok=True)
    wanted = {package: version} | dict.fromkeys(more, "latest") | ({} if _new_enough() else {RUNTIME: NEWER})
    if missing := [f"{name}@{of}" for name, of in wanted.items() if not _told(name).exists()]:
        there = [f"{name}@{_version(name)}" for name in (*PACKAGES, RUNTIME) if _told(name).exists()]  # npm removes the others
        _run("npm", "install", "--prefix", str(NODE), "--no-save", "--no-package-lock", "--ignore-scripts", *there, *missing)
    for program in PROGRAMS.glob("*.mjs"):
        shutil.copy(program, NODE)
    return ["node" if _new_enough() else str(NODE / "node_modules" / RUNTIME / "bin" / "node")], _version(package)


@functools.cache
def _new_enough() -> bool:
    """Say whether this machine's Node.js will do."""
    major, minor = _run("node", "--version").strip().removeprefix("v").split(".")[:2]
    return (int(major), int(minor)) >= NEEDED


def _told(package: str) -> Path:
    return NODE / "node_modules" / package / "package.json"


def _version(package: str) -> str:
    return str(json.loads(_told(package).read_text())["version"])


def go(name: str, module: str) -> tuple[list[str], str]:
    """Build a Go program with the newest release of a module; return its command, and the module's version."""
    folder = GO / name
    program = folder / "program"
    sources = PROGRAMS / name
    if not program.exists() or any(program.stat().st_mtime < path.stat().st_mtime for path in sources.iterdir()):
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        _run("go", "mod", "tidy", cwd=folder)
        _run("go", "build", "-o", "program", ".", cwd=folder)
    version = _run("go", "list", "-m", "-f", "{{.Version}}", module, cwd=folder)
    return [str(program)], version.strip().removeprefix("v")
