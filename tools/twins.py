"""Make the modules that block from the modules that await, so that nobody keeps the two equal by hand.

    python tools/twins.py            write each module that is out of date
    python tools/twins.py --check    name each module that is out of date, and exit with 1 if there is one

TWINS lists the modules. The source is the module that awaits; the module made from it is the same text without `async` and
`await`, with the names that NAMES and IN_NAMES give, and with the words that its entry in TWINS replaces. Comments and docstrings
come along. ruff then formats the module, sorts its imports, and drops an import that only the source needs.

Invariant: the same source gives the same text, under every version of Python and wherever the program runs.

It deliberately understands no program: where the two sides differ in more than their waiting, each side has a module of its own
that is written by hand, with the same names in it (fastq/postgres/pool/in_threads.py and in_loop.py).
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = "fastq"


class Twin(NamedTuple):
    """A module that awaits, the module to make from it, and the words that differ: each stands in the source exactly once.

    The paths are those below fastq/.
    """

    source: str
    made: str
    words: dict[str, str]


TWINS = (
    Twin(
        "postgres/pool/pool_async.py",
        "postgres/pool/pool.py",
        {
            "to coroutines of one event loop, and run": "to threads of one process, and run",
            "Runs in the event loop that calls a client, and in that of a worker process, for": (
                "Runs in the threads that call a client, and in those of a worker process, for"
            ),
            "(enqueue/sessions_async.py)": "(enqueue/sessions.py)",
            "The connections of one event loop.": "The connections of one process, which all its threads share.",
        },
    ),
    Twin(
        "adapters/drivers_async.py",
        "adapters/drivers.py",
        {"Runs in the caller's event loop,": "Runs in the caller's thread,"},
    ),
    Twin(
        "awaiting/ends_async.py",
        "awaiting/ends.py",
        {
            "looks for all that wait in an event loop, in one": "looks for all that wait in a process, in one",
            "Runs in the coroutines that wait; a client has one of these for each event loop. There is no task of ours:": (
                "Runs in the threads that wait; a client has one of these for each process. There is no thread of ours:"
            ),
            "The waits of one event loop.": "The waits of one process.",
        },
    ),
    Twin(
        "awaiting/results_async.py",
        "awaiting/results.py",
        {
            "methods of a client in an event loop.": "methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`Results` (results.py) is": "`AsyncResults` (results_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
            "# ruff: noqa: ASYNC109 - timeouts are arguments, as the blocking side has them\n": "",
            "`(await client.wait(job, timeout=10)).unwrap()`": "`client.wait(job, timeout=10).unwrap()`",
            "Return the waits of this event loop.": "Return the waits of this process.",
        },
    ),
    Twin(
        "joblogs/reading/job_logs_async.py",
        "joblogs/reading/job_logs.py",
        {
            "while the jobs run: methods of a client in an event loop.": "while the jobs run: methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`JobLogs` (job_logs.py) is": "`AsyncJobLogs` (job_logs_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
        },
    ),
    Twin(
        "subscribing/event_stream_async.py",
        "subscribing/event_stream.py",
        {
            "a method of a client in an event loop, and the": "a method of a client, and the",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`Hearing` (event_stream.py) is": "`AsyncHearing` (event_stream_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
            "in `async with client.events(...) as events: async for event in events: ...`.": (
                "in `with client.events(...) as events: for event in events: ...`."
            ),
            "With `async with` it": "With `with` it",
            "End the stream, from any task:": "End the stream, from any thread:",
        },
    ),
    Twin(
        "enqueue/sessions_async.py",
        "enqueue/sessions.py",
        {
            "Runs in the enqueuing event loop; a client has one of these for each event loop.": (
                "Runs in the enqueuing threads; a client has one for each process, which its threads share."
            ),
            "The connections and the wake-ups of one event loop.": "The connections and the wake-ups of one process.",
        },
    ),
    Twin(
        "admin/dead/letters_async.py",
        "admin/dead/letters.py",
        {
            "replay and delete them: methods of a client in an event loop.": "replay and delete them: methods of a client.",
            "A base class of `AsyncClient` (enqueue/client_async.py), which owns": (
                "A base class of `Client` (enqueue/client.py), and of an operator's\n(operating.py), which own"
            ),
            """Its methods run in
the caller's event loop.""": """Its methods run in
the caller's thread.""",
            "`DeadLetters` (letters.py) is": "`AsyncDeadLetters` (letters_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
        },
    ),
    Twin(
        "enqueue/workflows_async.py",
        "enqueue/workflows.py",
        {
            "methods of a client in an event loop.": "methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "Its methods run in the caller's event loop.": "Its methods run in the caller's thread.",
            "`Workflows` (workflows.py) is": "`AsyncWorkflows` (workflows_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
            "  # noqa: ASYNC109 - as the blocking side has it": "",
            "Return the sessions of this event loop.": "Return the sessions of this process.",
        },
    ),
    Twin(
        "work/effects/blocks_async.py",
        "work/effects/blocks.py",
        {
            "in an event loop: `async with job.transaction() as conn:`.": "in its thread: `with job.transaction() as conn:`.",
            "Runs in the event loop that executes the job.": "Runs in the thread that executes the job.",
            "Return the connections of this event loop.": "Return the connections of this process.",
        },
    ),
    Twin(
        "work/steps/records_async.py",
        "work/steps/records.py",
        {
            "to the database, in an event loop.": "to the database, in a thread.",
            "Runs in the event loop that executes the jobs.": "Runs in the threads that execute the jobs.",
            "from the event loops of one process.": "from the threads of one process.",
            "Return the connections of this event loop.": "Return the connections of this process.",
        },
    ),
    Twin(
        "enqueue/operate/signalling_async.py",
        "enqueue/operate/signalling.py",
        {
            "methods of a client in an event loop.": "methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`Signalling` (signalling.py) is": "`AsyncSignalling` (signalling_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
        },
    ),
    Twin(
        "enqueue/operate/measuring_async.py",
        "enqueue/operate/measuring.py",
        {
            "methods of a client in an event loop.": "methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`Measuring` (measuring.py) is": "`AsyncMeasuring` (measuring_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
        },
    ),
    Twin(
        "enqueue/operate/looking_async.py",
        "enqueue/operate/looking.py",
        {
            "where their jobs are: methods of a client in an event loop.": "where their jobs are: methods of a client.",
            "the class `AsyncClient` (client_async.py), which": "the class `Client` (client.py), which",
            "`Looking` (looking.py) is the same part of `Client`, and is made from this file.": (
                "`AsyncLooking` (looking_async.py) is the same part of `AsyncClient`, and the source of this one."
            ),
            "  # noqa: ASYNC109 - as the blocking side has it": "",
        },
    ),
    Twin(
        "enqueue/operate/many_jobs_async.py",
        "enqueue/operate/many_jobs.py",
        {
            "the methods of `client.jobs` in an event loop.": "the methods of `client.jobs`.",
            "is made by an `AsyncClient` (client_async.py) when": "is made by a `Client` (client.py) when",
            "in the caller's event loop": "in the caller's thread",
            "`ManyJobs` (many_jobs.py) is": "`AsyncManyJobs` (many_jobs_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
            '`await client.jobs.list("kind': '`client.jobs.list("kind',
            "  # noqa: ASYNC109 - as the blocking side has it": "",
        },
    ),
    Twin(
        "enqueue/operate/operators_async.py",
        "enqueue/operate/operators.py",
        {
            "methods of a client in an event loop.": "methods of a client.",
            "A base class of `AsyncClient` (client_async.py), which": "A base class of `Client` (client.py), which",
            "in the caller's event loop": "in the caller's thread",
            "`Operators` (operators.py) is": "`AsyncOperators` (operators_async.py) is",
            "`Client`, and is made from this file.": "`AsyncClient`, and the source of this one.",
        },
    ),
    Twin(
        "enqueue/client_async.py",
        "enqueue/client.py",
        {
            """\
Enqueue jobs from an event loop, look at them, cancel, retry and pause them; workflows_async.py adds workflows.

Discarded jobs are in admin/dead/letters_async.py.

`Client` (client.py) does the same in programs with threads, and is made from this file.

One client per program, made anywhere; it connects when it is first used. Each event loop that uses it gets connections of its
own, and so does a forked child; loops in several threads may share it. With `conn`""": """\
Enqueue jobs from programs with threads, look at them, cancel, retry and pause them; workflows.py adds workflows.

Discarded jobs are in admin/dead/letters.py.

`AsyncClient` (client_async.py) does the same in an event loop.

One client per program, made anywhere, shared by all threads; it connects when it is first used, and a forked child connects for
itself. With `conn`""",
            """\
It deliberately takes plain iterables, not asynchronous ones: args are at hand or cheap to make, and a COPY awaits the database
after each block, so the loop goes on.
""": """\
It deliberately starts no thread.
""",
            "`await AsyncClient().enqueue(": "`Client().enqueue(",
            "# By process and event loop. A forked": "# By process. A forked",
            "Close the connections of this event loop.": "Close the connections.",
        },
    ),
)

NAMES = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "asynccontextmanager": "contextmanager",
    "in_loop": "in_threads",
}
"""Names that are other ones in a module that blocks."""

IN_NAMES = r"(?<=\w)_async\b|Async(?=[A-Z])"
"""Parts of names that a module that blocks leaves out: `client_async`, `AsyncClient`, `TimedAsyncConnection`."""

UNWRAPPED = ("Awaitable",)
"""Types that stand for their parameter where nobody awaits: `Awaitable[Rows]` is `Rows`."""

FIXES = "I001,F401,SIM117,UP028"
"""Rules of ruff that a module breaks by having lost its waiting: order of imports, unused ones, nested `with`, `yield from`."""


def without_waiting(text: str) -> str:
    """Take the keywords `async` and `await` out of a program, and the wrappers of types; leave all else where it stands."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    cuts: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for number, token in enumerate(tokens):
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            cuts.append((token.start, tokens[number + 1].start))
        elif token.type == tokenize.NAME and token.string in UNWRAPPED and tokens[number + 1].string == "[":
            end = tokens[_closing(tokens, number + 1)]
            cuts += [(token.start, tokens[number + 1].end), (end.start, end.end)]
    for (row, first), (_, last) in sorted(cuts, reverse=True):  # from the back, so that the columns before stay right
        line = lines[row - 1]
        lines[row - 1] = line[:first] + line[last:]
    return "".join(lines)


def _closing(tokens: list[tokenize.TokenInfo], opening: int) -> int:
    """Find the bracket that closes the one at this number."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += {"[": 1, "]": -1}.get(tokens[number].string, 0)
        if depth == 0:
            return number
    raise ValueError(f"the bracket in line {tokens[opening].start[0]} is never closed")


def renamed(text: str) -> str:
    """Give the names of a module that blocks, in the program and in its prose."""
    text = re.sub(rf"\b({'|'.join(NAMES)})\b", lambda found: NAMES[found[0]], text)
    return re.sub(IN_NAMES, "", text)


def made_from(text: str, words: dict[str, str]) -> str:
    """Return a module that awaits as one that blocks, not yet formatted; raise ValueError if one of the words is not there."""
    for number, word in enumerate(words):
        if text.count(word) != 1:
            raise ValueError(f"expected these words exactly once, found them {text.count(word)} times: {word!r}")
        text = text.replace(word, f"WORDS{number}HERE")  # what comes in their place may name the module that awaits
    text = renamed(without_waiting(text))
    for number, word in enumerate(words.values()):
        text = text.replace(f"WORDS{number}HERE", word)
    return text


def made(twin: Twin) -> str:
    """Return the text of the module that a twin makes."""
    try:
        text = made_from((ROOT / PACKAGE / twin.source).read_text(), twin.words)
    except ValueError as error:
        raise SystemExit(f"{twin.source}: {error}; change the source, or TWINS in tools/twins.py") from None
    text = f"# Made by tools/twins.py from {twin.source}: change that file, then run `make twins`.\n{text}"
    text = _ruff("format", text, f"{PACKAGE}/{twin.made}")
    text = _ruff("check", text, f"{PACKAGE}/{twin.made}", "--fix-only", "--unsafe-fixes", "--quiet", "--select", FIXES)
    return _ruff("format", text, f"{PACKAGE}/{twin.made}")


def _ruff(command: str, text: str, name: str, *options: str) -> str:
    run = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", name, "-"]
    return subprocess.run(run, input=text, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write each module that is out of date, or name it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a module is out of date")
    checking = parser.parse_args().check
    stale = False
    for twin in TWINS:
        text, path = made(twin), ROOT / PACKAGE / twin.made
        if path.exists() and path.read_text() == text:
            continue
        stale = True
        print(f"{twin.made}: {'out of date, run `make twins`' if checking else 'written'}")
        if not checking:
            path.write_text(text)
    sys.exit(stale and checking)


if __name__ == "__main__":
    main()
