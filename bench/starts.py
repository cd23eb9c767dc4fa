"""How long programs take to start that use little of fastq: medians of 30 starts each, in turns, beside an empty interpreter.

    python bench/starts.py

`fastq health` asks a port at which nobody listens, so it is the start alone. Every start is a process of its own; the first of
each, which writes its files of bytecode, does not count.
"""

import statistics
import subprocess
import sys
import time

STARTS = 30
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import fastq": ["-c", "import fastq"],
    "fastq health": ["-m", "fastq", "health", "--health", "127.0.0.1:9"],
    "from fastq import Args, Registry": ["-c", "from fastq import Args, Registry"],
    "from fastq import Client": ["-c", "from fastq import Client"],
}


def main() -> None:
    """Measure and print."""
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(STARTS + 1):
        for name, words in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *words], capture_output=True, check=False)
            took[name].append(1_000 * (time.perf_counter() - began))
    empty = statistics.median(took["python -c pass"][1:])
    for name, times in took.items():
        median = statistics.median(times[1:])
        print(f"{name:34s} {median:6.1f} ms, {median - empty:6.1f} beyond the interpreter; the quickest {min(times):6.1f}")


if __name__ == "__main__":
    main()
