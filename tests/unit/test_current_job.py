"""The current job: known in the job's thread, task and their children, and nowhere else; and on the application's log records."""

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest

from fastq import Args, Job, Registry, Worker, current_job
from fastq.log import JsonFormatter
from fastq.logs import JobFilter, add_job, install
from fastq.work.shared.called import call_of


@dataclass
class AskArgs(Args, kind="ask", queue="mail"):
    pass


@pytest.fixture
def run():
    """Give a function that calls another one within a job, of one form or the other, and returns its result."""

    def call(function, *, is_async=False):
        class Sync(Worker[AskArgs]):
            def work(self, job):
                return function(job)

        class Async(Worker[AskArgs]):
            async def work(self, job):
                return await function(job)

        registry = Registry()
        registry.register(Async if is_async else Sync)
        job = Job.of(AskArgs(), id=7, attempt=3)
        result = call_of(registry.workers["ask"])(job)
        return asyncio.run(result) if is_async else result

    return call


def test_a_job_is_the_current_one_while_it_works_and_not_after(run):
    async def ask(job):
        await asyncio.sleep(0)
        return current_job() is job

    assert current_job() is None
    assert run(lambda job: current_job() is job)
    assert run(ask, is_async=True)
    assert current_job() is None
    assert contextvars.Context().run(lambda: (run(lambda job: None), not contextvars.copy_context())[1]), (
        "a slot of the event loop goes on with the same task"
    )


def test_a_job_that_raises_is_not_the_current_one_afterwards(run):
    def fail(job):
        raise ValueError("no such user")

    with pytest.raises(ValueError, match="no such user"):
        run(fail)

    assert current_job() is None


def test_tasks_and_threads_of_asyncio_inherit_it(run):
    async def child():
        await asyncio.sleep(0)
        return current_job()

    async def ask(job):
        found = [await asyncio.gather(child(), child()), await asyncio.to_thread(current_job)]
        return found == [[job, job], job]

    assert run(ask, is_async=True)


def test_a_bare_thread_does_not_inherit_it_unless_it_runs_in_a_copy_of_the_context(run):
    def ask(job):
        found = []
        context = contextvars.copy_context()
        for target in (lambda: found.append(current_job()), lambda: found.append(context.run(current_job))):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        return found == [None, job]

    assert run(ask)


@pytest.mark.parametrize("first", ["import fastq", "import fastq; fastq.Hook", "from fastq import *"])
def test_only_a_program_that_asks_for_it_pays_for_it(first):
    program = f"import sys\n{first}\nprint('fastq.hooks.current' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

    assert answer.stdout.strip() == str("*" in first)


@pytest.fixture
def logger():
    """Give a logger of the application's, and the records that reach its handler."""
    records = []

    class Collecting(logging.Handler):
        def emit(self, record):
            records.append(record)

    made = logging.getLogger("application")
    handler = Collecting()
    made.addHandler(handler)
    made.handler, made.records = handler, records
    factory = logging.getLogRecordFactory()
    yield made
    logging.setLogRecordFactory(factory)
    made.removeHandler(handler)


def fields(record):
    return record.job_id, record.job_kind, record.job_queue, record.job_attempt


@pytest.mark.parametrize("way", ["filter", "install"])
def test_records_of_a_job_say_which_job(run, logger, way):
    if way == "filter":
        logger.handler.addFilter(JobFilter())
    else:
        install()
        install()

    logger.warning("outside")
    run(lambda job: logger.warning("inside"))

    assert [fields(record) for record in logger.records] == [(None,) * 4, (7, "ask", "mail", 3)]


def test_a_record_keeps_the_job_it_has_when_another_thread_handles_it(run, logger):
    install()
    run(lambda job: logger.warning("inside"))

    JobFilter().filter(logger.records[0])

    assert logger.records[0].job_id == 7


def test_a_record_in_json_shows_the_job(run, logger):
    install()
    logger.warning("outside")
    run(lambda job: logger.warning("inside"))

    lines = [JsonFormatter().format(record) for record in logger.records]

    assert "job_id" not in lines[0]
    assert '"job_id": 7, "job_kind": "ask", "job_queue": "mail", "job_attempt": 3' in lines[1]


def test_an_event_of_structlog_says_which_job(run):
    assert add_job(None, "info", {"event": "outside"}) == {"event": "outside"}
    inside = run(lambda job: add_job(None, "info", {"event": "inside", "job_kind": "own"}))

    assert inside == {"event": "inside", "job_id": 7, "job_kind": "own", "job_queue": "mail", "job_attempt": 3}
