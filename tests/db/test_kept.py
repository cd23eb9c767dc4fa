"""A session that its owner keeps: opened by its first use, dropped after an error, opened anew by the next; cut when overdue."""

import threading
import time

import pytest

from fastq import Config
from fastq.backoff import Backoff
from fastq.postgres import db
from fastq.postgres.kept import Kept, Rebuilt, cut_overdue
from tests.helpers import Stopwatch, wait_for


@pytest.fixture
def kept(database):
    made = Kept(lambda: db.session(Config(), database, "kept"))
    yield made
    made.drop()


def test_it_is_opened_by_its_first_use_and_kept(kept):
    assert (kept.connection, kept.watched()) == (None, [])

    first = kept.open()

    assert kept.open() is first
    assert kept.watched() == [first]


def test_after_a_drop_the_next_use_opens_another(kept):
    first = kept.open()

    assert kept.drop()
    assert not kept.drop(), "there was none any more"
    assert first.raw.closed
    assert kept.open().execute("select 1") == [(1,)]


def test_what_is_given_to_open_is_what_it_is_made_with(database):
    asked = []

    def connect(seconds):
        asked.append(seconds)
        return db.session(Config(), database, "kept")

    kept = Kept(connect)
    kept.open(2.5)
    kept.open(1.5)
    kept.drop()

    assert asked == [2.5]


def test_a_rebuilt_one_tells_of_the_same_failure_once_and_pauses_longer_each_time(database, events):
    rebuilt = Rebuilt("kept", lambda: db.session(Config(), database, "kept"), Backoff(0.5, 2.0))
    rebuilt.open()

    assert [rebuilt.failed("gone") for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]
    assert rebuilt.connection is None
    assert [(event.name, dict(event.fields)) for event in events] == [("kept.waits", {"error": "gone"})]


def test_a_failure_that_was_expected_is_not_told(database, events):
    rebuilt = Rebuilt("kept", lambda: db.session(Config(), database, "kept"), Backoff(0.5, 2.0))

    rebuilt.failed("gone", quiet=True)

    assert events == []


def test_a_statement_that_is_overdue_is_cut_and_one_that_is_not_goes_on(database, events):
    late, soon = (
        Kept(lambda: db.session(Config(), database, "kept", timeout=60.0, settings={"statement_timeout": "0"})) for _ in range(2)
    )
    failed = []

    def sleep():
        try:
            late.open().execute("select pg_sleep(60)")
        except db.Error as error:
            failed.append(error)

    soon.open()
    thread = threading.Thread(target=sleep)
    thread.start()
    wait_for(lambda: late.connection is not None and late.connection.deadline is not None, what="the statement")
    watch = Stopwatch()
    cut_overdue([*late.watched(), *soon.watched()], time.monotonic())
    assert not failed

    cut_overdue([*late.watched(), *soon.watched()], time.monotonic() + 61.0)
    thread.join()

    assert len(failed) == 1
    assert watch.idle() < 30.0
    assert [event.name for event in events] == ["connection.cut"]
    assert soon.open().usable
    late.drop()
    soon.drop()
