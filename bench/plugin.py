"""Ask what a test costs that uses the pytest plugin: `python bench/plugin.py [TESTS]`.

In one run of pytest, in turns: a test that does nothing, one that enqueues a job and asks for it, one that has it worked as well.
Each is timed with its fixtures. FASTQ_TEST_DATABASE_URL names the server; without it the embedded one is started.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = """
import time
from dataclasses import dataclass

import pytest

from fastq import Args, Registry, Worker

registry = Registry()


@dataclass
class MailArgs(Args, kind="mail"):
    to: str


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job):
        return job.args.to


@pytest.fixture(scope="session")
def fastq_registry():
    return registry


@pytest.mark.parametrize("what", ["nothing", "asked", "worked"] * COUNT)
def test_one(what, request):
    if what == "nothing":
        return
    client, jobs = request.getfixturevalue("fastq_client"), request.getfixturevalue("fastq_jobs")
    client.enqueue(MailArgs("ada"))
    if what == "asked":
        jobs.assert_enqueued(MailArgs, to="ada")
    else:
        assert len(jobs.drain()) == 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    began = time.perf_counter()
    done = yield
    print(f"\\ntook {item.callspec.params['what']} {time.perf_counter() - began}")
    return done
"""


def main() -> None:
    count = sys.argv[1] if len(sys.argv) > 1 else "100"
    with tempfile.TemporaryDirectory() as folder:
        tests, _, hooks = TESTS.replace("COUNT", count).partition("@pytest.hookimpl")
        Path(folder, "test_one.py").write_text(tests)
        Path(folder, "conftest.py").write_text(f"import time\n\nimport pytest\n\n\n@pytest.hookimpl{hooks}")
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", folder]
        told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    took: dict[str, list[float]] = {}
    for line in told.splitlines():
        if line.startswith("took "):
            _, what, seconds = line.split()
            took.setdefault(what, []).append(float(seconds) * 1000)
    for what, times in took.items():
        print(f"{what:8} median {statistics.median(times):6.1f} ms   first {times[0]:6.0f} ms")


if __name__ == "__main__":
    main()
