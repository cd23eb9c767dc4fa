"""Programs under way: `fastq run`, `fastq dev` and their like, with what they say."""

import signal
import subprocess
from contextlib import contextmanager

from tests.cli.conftest import environment
from tests.helpers import wait_for


class Program:
    """A program under way, with what it has said so far on both its outputs."""

    def __init__(self, process, said):
        self.process = process
        self._said = said

    @property
    def said(self):
        return self._said.read_text()

    def wait_until_it_says(self, text, times=1):
        wait_for(lambda: self.said.count(text) >= times or self.process.poll() is not None, 30, f"{text!r} in {self.said}")
        assert self.said.count(text) >= times, self.said

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)


IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""As a script starts a program with `&`: it ignores SIGINT until it says otherwise."""


@contextmanager
def started(folder, *words, **variables):
    """Start a program in a folder; kill it if the test has not ended it."""
    said = folder / "said.txt"
    with said.open("w") as stream:
        process = subprocess.Popen(words, cwd=folder, env=environment(**variables), stdout=stream, stderr=stream)
    try:
        yield Program(process, said)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
