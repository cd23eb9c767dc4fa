"""Job logs in memory: which attempt a word belongs to, what is kept of many words, and what a reader makes of the sheets."""

import asyncio
import contextvars
import logging
import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastq import Args, Job, Registry, Worker
from fastq.errors import RegistryError
from fastq.joblogs import keeping, streams
from fastq.joblogs.reading.log_lines import Reading
from fastq.joblogs.transcript import HEAD, LONGEST, SHEET, TAIL, Transcript

LIMIT = 65_536
log = logging.getLogger("shop.mail")


@dataclass
class MailArgs(Args, kind="mail"):
    to: str = "ada"


class Shelf:
    """Takes transcripts, and reads what is in them."""

    def __init__(self):
        self.transcripts = []
        self.readings = {}

    def take(self, transcript):
        if transcript not in self.transcripts:
            self.transcripts.append(transcript)

    def sheets(self):
        return [sheet for transcript in self.transcripts for sheet in transcript.take()]

    def lines(self):
        return [line for sheet in self.sheets() for line in self.readings.setdefault(sheet.job, Reading()).lines([row_of(sheet)])]

    def told(self):
        return [(line.level, line.source, line.text) for line in self.lines()]


@pytest.fixture
def shelf():
    made = Shelf()
    keeping.use(lambda job: Transcript(job, made.take))
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.INFO)
    yield made
    logging.getLogger().setLevel(level)
    keeping.use(None)


@contextmanager
def listening():
    """Hear what is printed; not in a fixture, since pytest has other streams there than in a test."""
    streams.listen("info")
    yield
    streams.leave()


def row_of(sheet):
    """Return a sheet as log_read.sql answers with it."""
    return sheet.claim, sheet.attempt, sheet.start, sheet.size, sheet.ended, sheet.text


def work(function, *, attempt=1, job_id=1):
    """Do work with a job whose log is kept."""
    with listening():
        return keeping.within(function, is_async=False)(Job.of(MailArgs(), id=job_id, attempt=attempt))


def transcript():
    """Return a transcript that tells nobody."""
    return Transcript(Job.of(MailArgs()), lambda _: None)


def read(sheets):
    """Return the log lines of sheets, as a reader sees them who comes late."""
    return list(Reading().lines([row_of(sheet) for sheet in sheets]))


def test_records_and_prints_of_a_job_are_kept_and_those_beside_it_are_not(shelf, capfd):
    def shouting(job):
        log.info("to %s", "ada")
        print("one", 2, end="")
        print("!")
        print("careful", file=sys.stderr)
        log.debug("nobody asked")

    with listening():
        print("before")
        keeping.within(shouting, is_async=False)(Job.of(MailArgs()))
        log.warning("behind")

    assert shelf.told() == [("info", "shop.mail", "to ada"), ("", "stdout", "one 2!"), ("", "stderr", "careful")]
    printed = capfd.readouterr()
    assert "before\none 2!\n" in printed.out
    assert "careful\n" in printed.err


def test_a_job_that_tells_nothing_has_no_transcript(shelf):
    work(lambda job: None)

    assert shelf.transcripts == []


def test_jobs_on_one_event_loop_are_told_apart_with_the_tasks_and_threads_that_they_start(shelf):
    async def chatting(job):
        for number in range(3):
            print(job.id, end=" ")
            await asyncio.sleep(0)
            print(number)
            await asyncio.gather(asyncio.to_thread(print, f"thread of {job.id}"), say(job.id))

    async def say(number):
        log.info("task of %d", number)

    async def both():
        kept = keeping.within(chatting, is_async=True)
        await asyncio.gather(*(asyncio.create_task(kept(Job.of(MailArgs(), id=number))) for number in (1, 2)))

    with listening():
        asyncio.run(both())

    for number, told in enumerate([read(transcript.take()) for transcript in shelf.transcripts], start=1):
        expected = {f"{number} 0", f"{number} 1", f"{number} 2", f"task of {number}", f"thread of {number}"}
        assert {line.text for line in told} == expected
        assert len(told) == 9


def test_a_plain_thread_belongs_to_nobody_unless_it_runs_in_the_context_of_the_job(shelf):
    def starting(job):
        context = contextvars.copy_context()
        for target, args in ((print, ("nobody's",)), (context.run, (print, "the job's"))):
            thread = threading.Thread(target=target, args=args)
            thread.start()
            thread.join()

    work(starting)

    assert shelf.told() == [("", "stdout", "the job's")]


def test_a_line_that_one_thread_of_a_job_has_begun_is_not_mixed_with_those_of_another(shelf):
    def printing(job):
        print("begun", end=" ")
        thread = threading.Thread(target=contextvars.copy_context().run, args=(print, "another"))
        thread.start()
        thread.join()
        print("and ended")

    work(printing)

    assert [text for *_, text in shelf.told()] == ["another", "begun and ended"]


def test_a_thread_that_outlives_its_job_adds_nothing_to_the_log(shelf):
    go, contexts = threading.Event(), []

    def leaving(job):
        contexts.extend(contextvars.copy_context() for _ in range(2))
        if job.id == 1:
            print("the job's")

    with listening():
        work(leaving, job_id=1)
        work(leaving, job_id=2)
    with listening():
        late = (lambda: go.wait() and print("late"), lambda: go.wait() and log.error("late"))
        threads = [threading.Thread(target=context.run, args=(late[at % 2],)) for at, context in enumerate(contexts)]
        for thread in threads:
            thread.start()
        go.set()
        for thread in threads:
            thread.join()

    assert shelf.told() == [("", "stdout", "the job's")]


def test_a_child_that_a_job_forks_keeps_nothing(shelf):
    def forking(job):
        print("parent")
        child = os.fork()
        if not child:
            os._exit(0 if keeping.current() is None else 1)
        assert os.waitpid(child, 0)[1] == 0

    work(forking)

    assert shelf.told() == [("", "stdout", "parent")]


def test_a_traceback_is_part_of_its_record(shelf):
    def failing(job):
        try:
            raise LookupError("no such customer")
        except LookupError:
            log.exception("it went wrong")

    work(failing)

    [line] = shelf.lines()
    assert line.text.startswith("it went wrong\nTraceback (most recent call last):\n")
    assert line.text.endswith("LookupError: no such customer")


class Rude:
    def __str__(self):
        raise ValueError("I have no text")


def test_a_record_that_cannot_be_written_is_named_and_fails_no_job(shelf, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def logging_badly(job):
        log.info("%s", Rude())
        log.info("%d and %d", 1)  # noqa: PLE1206 - on purpose

    work(logging_badly)

    assert [text for *_, text in shelf.told()] == [
        "(its text could not be made: ValueError)",
        "(its text could not be made: TypeError)",
    ]


def test_a_finalizer_that_prints_while_a_line_is_kept_finds_the_lock_open():
    keeper = Transcript(Job.of(MailArgs()), lambda transcript: transcript.print("stdout", "from within\n"))

    keeper.print("stdout", "outer\n")

    assert [line.text for line in read(keeper.take())] == ["outer", "from within"]


def test_a_bar_that_is_drawn_over_and_over_is_one_line(shelf):
    def drawing(job):
        for number in range(100):
            print(f"\r{number}", end="", file=sys.stderr)
        print(" done", file=sys.stderr)

    work(drawing)

    assert shelf.told() == [("", "stderr", "99 done")]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("a\0b\ud800c", "a\ufffdb\ufffdc"),
        ("postgresql://ada:secret@db/shop", "postgresql://ada:***@db/shop"),
        ("host=db password=secret", "host=db password=***"),
        ("tab\there\nand below", "tab\there\nand below"),
        ("", ""),
    ],
)
def test_what_cannot_be_stored_and_passwords_are_taken_out(told, kept):
    keeper = transcript()
    keeper.log(0.0, "info", "a\tlogger\n", told)

    [line] = read(keeper.take())
    assert (line.source, line.text) == ("a logger ", kept)


def test_of_many_lines_the_first_and_the_last_are_kept_and_the_gap_is_counted():
    keeper = transcript()
    for number in range(100_000):
        keeper.print("stdout", f"line {number}\n")
    keeper.end()

    sheets = keeper.take()
    lines = read(sheets)
    [gap] = [line for line in lines if line.left_out]
    assert (lines[0].text, lines[-1].text) == ("line 0", "line 99999")
    assert sum(sheet.size for sheet in sheets) + gap.left_out == sheets[-1].start + sheets[-1].size
    assert LIMIT - SHEET - 100 <= sum(len(sheet.text) for sheet in sheets) <= LIMIT
    assert [sheet.ended for sheet in sheets] == [False] * (len(sheets) - 1) + [True]


def test_a_text_of_many_megabytes_is_kept_by_its_beginning_and_its_end():
    keeper = transcript()
    keeper.print("stdout", "begin\n" + "x\n" * 5_000_000 + "end\n")

    lines = read(keeper.take())
    assert (lines[0].text, lines[-1].text) == ("begin", "end")
    assert sum(line.left_out for line in lines) > 9_000_000


def test_a_long_line_is_cut_in_its_middle():
    keeper = transcript()
    keeper.log(0.0, "info", "shop", "ä" * 100_000)

    [line] = read(keeper.take())
    assert len(line.text.encode()) <= LONGEST
    assert "\n... 195,".replace(",", "") in line.text
    assert line.text.startswith("ää")
    assert line.text.endswith("ää")


@given(st.lists(st.lists(st.integers(0, 3_000), max_size=60), max_size=12))
def test_what_is_written_again_and_again_stays_below_its_limit_and_in_order(rounds):
    """As the table has it: sheets come, and those that the newest one says are gone are deleted."""
    keeper, table, number, last = transcript(), [], 0, Reading()
    live = []
    for lengths in rounds:
        for length in lengths:
            keeper.print("stdout", f"{number} {'x' * length}\n")
            number += 1
        sheets = keeper.take()
        for sheet in sheets[-1:]:
            table = [one for one in table if not (sheet.gone > sheet.head <= one.start and one.start + one.size <= sheet.gone)]
        table += sheets
        live += [line for sheet in sheets for line in last.lines([row_of(sheet)])]
        assert sum(sheet.size for sheet in table) <= LIMIT
    lines = read(table)
    numbers = [int(line.text.partition(" ")[0]) for line in lines if not line.left_out]
    assert numbers == sorted({*numbers})
    assert numbers[-1:] == ([number - 1] if number else [])
    assert sum(sheet.size for sheet in table) + sum(line.left_out for line in lines) == (
        table[-1].start + table[-1].size if table else 0
    )
    assert [line for line in live if not line.left_out][-len(numbers) :] or not numbers
    assert HEAD + TAIL + SHEET == LIMIT


def test_an_attempt_of_which_all_is_written_is_told_to_have_ended():
    keeper, reading = transcript(), Reading()
    keeper.log(0.0, "info", "shop", "only")
    assert [line.text for sheet in keeper.take() for line in reading.lines([row_of(sheet)])] == ["only"]
    assert not reading.has_ended(1)

    keeper.end()

    [sheet] = keeper.take()
    assert (sheet.size, sheet.lines, sheet.text, sheet.ended) == (0, 0, "", True)
    assert list(reading.lines([row_of(sheet)])) == []
    assert reading.has_ended(1)


def test_whose_logs_are_kept_the_worker_says_and_else_the_registry():
    def called(registry_logs, worker_logs):
        registry = Registry(logs=registry_logs)

        class MailWorker(Worker[MailArgs]):
            logs = worker_logs

            def work(self, job):
                pass

        worker = MailWorker()
        registry.register(worker)
        return worker.called != worker.work

    found = {(of_all, own): called(of_all, own) for of_all in (False, True) for own in (None, False, True)}
    assert found == {key: key[1] if key[1] is not None else key[0] for key in found}


def test_logs_are_on_or_off():
    class MailWorker(Worker[MailArgs]):
        logs = "info"

        def work(self, job):
            pass

    with pytest.raises(
        RegistryError, match=r"MailWorker\.logs: expected True, False, or None for what the registry says; got 'info'"
    ):
        Registry().register(MailWorker)
    with pytest.raises(RegistryError, match="Registry: logs: expected True or False, got 1"):
        Registry(logs=1)
