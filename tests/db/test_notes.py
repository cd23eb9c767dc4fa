"""Notes of progress: written by the batch, once a second, by nobody where there are none; deleted when their jobs are gone."""

import time

import pytest

from fastq.leases import lease
from fastq.postgres import db
from fastq.results.progress import Note
from fastq.work.notes import Notes
from tests.db.jobs import add
from tests.helpers import wait_for

NOTES = "select job, attempt, fraction, text from fastq.job_progress order by job"


@pytest.fixture
def notes(database):
    made = Notes(lambda: db.connect(database, role="progress"))
    made.start()
    yield made
    made.finish(time.monotonic() + 5)
    made.join(10)
    assert made.ended


def write(connection, *notes):
    ids, attempts, fractions, texts = zip(*notes, strict=True)
    connection.run("progress_note", list(ids), list(attempts), list(fractions), list(texts))


def test_nothing_runs_before_the_first_note(notes):
    assert notes.ended
    assert list(notes.watched()) == []


def test_the_newest_note_of_each_job_is_written(notes, connection):
    for number in range(1000):
        notes.take(1, Note(1, number / 999, f"at {number}"))
        notes.take(2, Note(1, 0.5, "half"))

    wait_for(lambda: connection.execute(NOTES) == [(1, 1, 1.0, "at 999"), (2, 1, 0.5, "half")])


def test_a_note_that_came_just_before_the_end_is_written(notes, connection):
    notes.take(1, Note(1, 0.1, "first"))
    wait_for(lambda: connection.execute(NOTES))
    notes.take(1, Note(1, 1.0, "last"))

    notes.finish(time.monotonic() + 5)
    notes.join(10)

    assert connection.execute(NOTES) == [(1, 1, 1.0, "last")]


def test_a_note_that_could_not_be_written_is_written_later(connection, proxy, events):
    made = Notes(lambda: db.connect(proxy.url, role="progress"))
    made.start()
    made.take(1, Note(1, 0.1, "first"))
    wait_for(lambda: connection.execute(NOTES))
    proxy.sever()
    made.take(1, Note(1, 0.2, "second"))
    made.take(2, Note(1, 0.2, "other"))

    wait_for(lambda: connection.execute(NOTES) == [(1, 1, 0.2, "second"), (2, 1, 0.2, "other")])
    assert "progress.waits" in {event.name for event in events}
    made.finish(time.monotonic() + 5)
    made.join(10)


def test_an_attempt_that_is_over_does_not_overwrite_the_note_of_the_next(connection):
    write(connection, (1, 2, 0.1, "second attempt"))
    write(connection, (1, 1, 0.9, "first attempt"))

    assert connection.execute(NOTES) == [(1, 2, 0.1, "second attempt")]


def test_notes_of_jobs_that_have_ended_are_deleted_in_time(connection):
    living, *_ = add(connection, 2)
    write(connection, (living, 1, 0.1, "lives"), (4711, 1, 0.1, "gone"), (4712, 1, 0.1, "gone just now"))
    connection.execute("update fastq.job_progress set noted_at = now() - interval '2 hours' where job <> 4712")
    term = lease.acquire(connection, "schema", "h:1:x", 600.0).term
    fence = ("schema", "h:1:x", term)

    assert connection.run_one("progress_forget", *fence, 0, 2, 3600.0) == (1, 4711, 2, 1)
    assert connection.run_one("progress_forget", *fence, 4711, 2, 3600.0) == (1, 4712, 1, 0)
    assert [row[0] for row in connection.execute(NOTES)] == [living, 4712]
    assert connection.run_one("progress_forget", "schema", "h:1:y", term, 0, 100, 0.0) == (0, 0, 0, 0)
