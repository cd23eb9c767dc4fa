"""Job logs in the table: written by the batch, soon after an attempt has ended, never twice, within their bounds, and pruned."""

import asyncio
import logging
import threading
import time
from dataclasses import dataclass

import pytest

from fastq import Args, AsyncClient, Client, Job
from fastq.errors import JobNotFound
from fastq.joblogs import keeping
from fastq.joblogs.transcript import SHEET, Transcript
from fastq.leases import lease
from fastq.postgres import db
from fastq.work import scribe
from fastq.work.scribe import Scribe
from tests.helpers import wait_for
from tests.proxy import Proxy

SHEETS = "select job, claim, attempt, start_at, lines, ended from fastq.job_log order by job, claim, start_at"
INSERT = """insert into fastq.job_log (job, claim, start_at, at, attempt, size, lines, ended, kind, text)
    select $1, $2, $3, now() - make_interval(secs => $4::float8), 1, 30, 1, false, $5,
        e'2026-11-19T00:00:00.000Z\\tinfo\\tshop\\told\\n'"""


@dataclass
class MailArgs(Args, kind="mail"):
    to: str = "ada"


@pytest.fixture
def made(database):
    made = Scribe("info", lambda: db.connect(database, role="logs"))
    keeping.within(print, is_async=False)  # the application has such a kind
    made.start()
    yield made
    made.finish(time.monotonic() + 5)
    made.join(10)
    assert made.ended


def transcript(writer, job_id=1, attempt=1):
    return Transcript(Job.of(MailArgs(), id=job_id, attempt=attempt), writer.take)


def tell(told, *texts):
    for text in texts:
        told.log(time.time(), "info", "shop", text)


def lines(connection, job_id):
    """Return the texts of a job's log lines as the table has them."""
    rows = connection.execute("select text from fastq.job_log where job = $1 order by start_at", job_id)
    return [line.split("\t")[3] for (text,) in rows for line in text.splitlines()]


def test_nothing_runs_before_the_first_word(made):
    assert made.ended
    assert list(made.watched()) == []


def test_an_application_without_such_a_kind_hears_nothing(database, monkeypatch):
    monkeypatch.setattr(keeping, "_kept", False)
    before = logging.getLogger().handlers[:]

    Scribe("info", lambda: db.connect(database, role="logs")).start()

    assert logging.getLogger().handlers == before


def test_nothing_is_heard_where_the_setting_says_off(database):
    keeping.within(print, is_async=False)
    before = logging.getLogger().handlers[:]

    Scribe("off", lambda: db.connect(database, role="logs")).start()

    assert logging.getLogger().handlers == before


def test_a_running_job_is_written_every_two_seconds_and_its_end_at_once(made, connection, monkeypatch):
    told, other = transcript(made), transcript(made, 2)
    tell(told, "one", "two")
    tell(other, "else")
    wait_for(lambda: lines(connection, 1) == ["one", "two"] and lines(connection, 2) == ["else"])
    monkeypatch.setattr(scribe, "INTERVAL", 3_600.0)

    tell(told, "three")
    told.end()

    wait_for(lambda: lines(connection, 1) == ["one", "two", "three"])
    assert connection.execute("select count(*) from fastq.job_log where ended") == [(1,)]


def test_a_word_that_came_just_before_the_end_of_the_process_is_written(made, connection):
    tell(transcript(made), "last")

    made.finish(time.monotonic() + 5)
    made.join(10)

    assert lines(connection, 1) == ["last"]


def test_a_word_that_came_while_a_statement_was_under_way_at_the_end_of_the_process_is_written(database, connection):
    with Proxy(database, {"write": db.statement("log_write")}) as wire:
        made = Scribe("info", lambda: db.connect(wire.url, role="logs"))
        keeping.within(print, is_async=False)
        made.start()
        told = transcript(made)
        wire.hold("write")
        tell(told, "first")
        wait_for(wire.held, what="the statement")
        tell(told, "last")
        told.end()
        made.finish(time.monotonic() + 10)
        wire.release()
        made.join(10)

    assert made.ended
    assert lines(connection, 1) == ["first", "last"]


def test_what_could_not_be_written_while_the_database_was_away_is_written_later_and_once(connection, proxy, events):
    made = Scribe("info", lambda: db.connect(proxy.url, role="logs"))
    keeping.within(print, is_async=False)
    made.start()
    told = transcript(made)
    tell(told, "first")
    wait_for(lambda: lines(connection, 1))
    proxy.sever()
    tell(told, "second")
    wait_for(lambda: "logs.waits" in {event.name for event in events})
    tell(told, "third")
    told.end()

    wait_for(lambda: lines(connection, 1) == ["first", "second", "third"])
    made.finish(time.monotonic() + 5)
    made.join(10)


def test_a_statement_whose_answer_was_lost_changes_nothing_the_second_time(connection):
    kept = Transcript(Job.of(MailArgs()), lambda _: None)
    tell(kept, "one", "two")
    kept.end()
    columns = [list(column) for column in zip(*kept.take(), strict=True)]

    connection.run("log_write", *columns)
    connection.run("log_write", *columns)

    assert lines(connection, 1) == ["one", "two"]


def test_while_nothing_can_be_written_logs_take_bounded_memory_and_the_event_says_what_was_dropped(
    database, connection, events, monkeypatch
):
    monkeypatch.setattr(scribe, "MOST", 200_000)
    away = threading.Event()

    def connect():
        away.wait(20)
        return db.connect(database, role="logs")

    made = Scribe("info", connect)
    keeping.within(print, is_async=False)
    made.start()
    for number in range(1, 301):
        told = transcript(made, number)
        tell(told, *["x" * 100] * 20)
        told.end()
    assert len(made._coming) < 100
    away.set()

    wait_for(lambda: made._coming == {})
    made.finish(time.monotonic() + 5)
    made.join(10)
    [(written,)] = connection.execute("select sum(lines) from fastq.job_log")
    dropped = sum(event.fields["lines"] for event in events if event.name == "logs.dropped")
    assert dropped > 0
    assert written + dropped == 300 * 20


def test_a_row_that_the_database_refuses_does_not_hold_up_the_others(made, connection, events):
    connection.execute("alter table fastq.job_log add constraint no_mails check (text not like '%forbidden%')")
    told = [transcript(made, number) for number in range(1, 6)]
    for number, one in enumerate(told, start=1):
        tell(one, "forbidden" if number == 3 else "beside it")

    wait_for(lambda: [event.fields["lines"] for event in events if event.name == "logs.dropped"] == [1])
    for one in told:
        tell(one, "allowed")
        one.end()

    for number in range(1, 6):
        expected = ["allowed"] if number == 3 else ["beside it", "allowed"]
        wait_for(lambda number=number, expected=expected: lines(connection, number) == expected)


def test_bytes_that_postgres_cannot_store_are_replaced(made, connection):
    told = transcript(made)
    tell(told, "nul \0, half a pair \ud83d, and é")
    told.end()

    wait_for(lambda: lines(connection, 1) == ["nul \ufffd, half a pair \ufffd, and é"])


def test_the_table_keeps_the_first_and_the_last_64_kb_of_an_attempt_that_goes_on_and_on(made, connection, database, monkeypatch):
    monkeypatch.setattr(scribe, "INTERVAL", 0.01)
    monkeypatch.setattr(scribe, "SOON", 0.01)
    told = transcript(made)
    for number in range(60):
        tell(told, *[f"line {number} {'x' * 100}"] * 30)
        wait_for(lambda number=number: f"line {number} {'x' * 100}" in lines(connection, 1)[-1:])
    told.end()
    wait_for(lambda: connection.execute("select count(*) from fastq.job_log where ended") == [(1,)])

    [(size,)] = connection.execute("select sum(size) from fastq.job_log")
    assert 65_536 - 2 * SHEET <= size <= 65_536
    with Client(database) as client:
        seen = client.logs(1)
    assert (seen[0].text[:7], seen[-1].text[:8]) == ("line 0 ", "line 59 ")
    [gap] = [line for line in seen if line.left_out]
    assert gap.text == f"{gap.left_out:,} bytes left out"
    numbers = [int(line.text.split()[1]) for line in seen if not line.left_out]
    assert numbers == sorted(numbers)


def test_logs_are_read_attempt_by_attempt_by_both_clients(made, connection, database):
    for attempt in (1, 2):
        kept = Transcript(Job.of(MailArgs(), id=7, attempt=attempt), made.take)
        kept._job.batch.claim = attempt  # as two claims of the job
        tell(kept, f"in attempt {attempt}")
        kept.end()
        wait_for(lambda attempt=attempt: connection.execute("select count(*) from fastq.job_log where ended") == [(attempt,)])

    async def look():
        async with AsyncClient(database) as client:
            return await client.logs(7), await client.log_sizes()

    with Client(database) as client:
        told = client.logs(7)
        assert [(line.attempt, line.level, line.source, line.text) for line in told] == [
            (1, "info", "shop", "in attempt 1"),
            (2, "info", "shop", "in attempt 2"),
        ]
        assert [line.text for line in client.logs(7, attempt=2)] == ["in attempt 2"]
        assert client.logs(8) == []
        [size] = client.log_sizes()
        assert (size.kind, size.attempts, size.lines, size.more) == ("mail", 2, 2, False)
        assert 0 < size.bytes < size.disk
        assert asyncio.run(look()) == (told, [size])


def test_many_pages_of_a_log_are_read_once_each(connection, database, monkeypatch):
    monkeypatch.setattr("fastq.joblogs.reading.job_logs.PAGE", 7)
    for claim in range(1, 41):
        connection.execute(INSERT, 1, claim, 0, 100.0 - claim, "mail")
        connection.execute(
            "insert into fastq.job_log (job, claim, start_at, at, attempt, size, lines, ended, kind, text)"
            " values (1, $1, 30, now() - make_interval(secs => $2::float8), 1, 0, 0, true, 'mail', '')",
            claim,
            99.5 - claim,
        )

    with Client(database) as client:
        assert len(client.logs(1)) == 40


def test_following_the_log_of_a_job_that_is_not_there_says_so(database):
    with Client(database) as client, pytest.raises(JobNotFound, match="job 4711: there is none with this id"):
        next(client.follow_logs(4711))


def test_old_logs_are_pruned_from_the_oldest_on_and_each_walk_goes_on_where_the_last_one_has_ended(connection):
    day = 86_400.0
    for number, age in enumerate((5.0, 4.0, 3.5, 2.0), start=1):
        connection.execute(INSERT, number, 1, 0, age * day, "mail")
    term = lease.acquire(connection, "schema", "h:1:x", 600.0).term
    fence = ("schema", "h:1:x", term)

    held, last, gone = connection.run_one("log_prune", *fence, "-infinity", 2, 3.0)
    assert (held, gone) == (1, 2)
    held, last, gone = connection.run_one("log_prune", *fence, last, 2, 3.0)
    assert (held, gone) == (1, 1)
    assert connection.run_one("log_prune", *fence, last, 2, 3.0) == (1, None, 0)
    assert connection.run_one("log_prune", "schema", "h:1:y", term, last, 2, 0.0) == (0, None, 0)
    assert connection.execute("select job from fastq.job_log") == [(4,)]
