"""`attempts="since_progress"`: attempts count from the last step or move of a cursor on; the job's row says up to which one."""

import pytest

from fastq.jobs.outcome import fate_of
from tests.db.jobs import archived
from tests.db.test_steps import failing, shop  # noqa: F401 - a fixture

COUNTED = "update fastq.job set max_attempts = 2, meta = '{\"attempts\": 2}'"


@pytest.fixture
def counted(shop):  # noqa: F811 - the fixture
    """Give a job that has two attempts from its last progress on."""
    shop.connection.execute(COUNTED)
    return shop


def gets_on(job):
    job.step(f"in attempt {job.attempt}", int)
    failing()


def attempt(shop, work):  # noqa: F811 - the same
    """Let an attempt run and the job be due again; return the delay behind it, None if it was the last one."""
    job = shop.attempt(work)
    shop.due()
    fate = fate_of(job.outcome)
    return fate.delay if fate.state is None else None


def test_a_job_that_gets_on_in_each_attempt_is_tried_again_for_ever(counted):
    for number in range(1, 8):
        attempt(counted, gets_on)
        assert (counted.row()["attempt"], counted.row()["max_attempts"]) == (number, number + 2)


def test_attempts_without_progress_count_from_the_last_one_with_it(counted):
    for _ in range(4):
        attempt(counted, gets_on)
    attempt(counted, failing)
    assert counted.row()["max_attempts"] == 6
    assert attempt(counted, failing) is None

    row = archived(counted.connection, counted.id)
    assert (row["state"], row["attempt"], len(row["errors"])) == ("discarded", 6, 6)


def test_without_the_option_progress_changes_nothing(shop):  # noqa: F811 - the fixture
    shop.connection.execute("update fastq.job set max_attempts = 2")
    attempt(shop, gets_on)
    assert attempt(shop, gets_on) is None
    assert archived(shop.connection, shop.id)["max_attempts"] == 2


def test_the_delay_grows_from_the_last_progress_on(counted):
    counted.connection.execute(COUNTED.replace("2", "9"))
    delays = [attempt(counted, work) for work in (failing, failing, failing, gets_on, failing, failing, gets_on)]

    assert [round(delay ** (1 / 4), 1) for delay in delays] == pytest.approx([1, 2, 3, 1, 1, 2, 1], abs=0.2)


def test_the_workers_own_delay_is_asked_with_the_attempts_since_the_last_progress(counted, monkeypatch):
    from tests.db.test_steps import SteppedWorker

    asked = []
    monkeypatch.setattr(SteppedWorker, "retry_delay", lambda _, attempt, __: asked.append(attempt) or 1.0)
    for work in (failing, gets_on, gets_on, failing):
        attempt(counted, work)

    assert asked == [1, 1, 1, 1]


def test_a_cursor_that_moves_is_progress_and_one_that_stays_is_not(counted):
    def moves(to):
        def work(job):
            job.cursor("rows", 0).advance(to)
            failing()

        return work

    attempt(counted, moves(100))
    attempt(counted, moves(200))
    assert counted.row()["max_attempts"] == 4
    attempt(counted, moves(200))
    assert counted.row()["max_attempts"] == 4
    assert attempt(counted, moves(200)) is None


def test_a_step_that_was_done_before_a_sleep_and_a_wait_are_no_progress(counted):
    def work(job):
        job.step("charge", int)
        job.sleep(0, name=f"nap {job.attempt}")
        job.wait_for(f"go {job.attempt}", timeout=0)
        failing()

    attempt(counted, work)
    attempt(counted, work)
    assert attempt(counted, work) is None


def test_parking_spends_no_attempt_and_allows_no_more(counted):
    def work(job):
        job.step("charge", int)
        job.sleep(3600)
        failing()

    attempt(counted, work)
    assert (counted.row()["attempt"], counted.row()["max_attempts"]) == (0, 3)
    attempt(counted, work)
    assert counted.row()["attempt"] == 1


@pytest.mark.parametrize("ways", [["before"], ["answer"]])
def test_a_record_that_is_sent_twice_counts_once_and_is_known(counted, proxy, ways):
    from fastq import Config
    from fastq.enqueue.settings import Settings
    from fastq.work.steps.reaching import Reaching

    left = list(ways)
    proxy.cut = lambda chunk: left.pop(0) if b"in attempt" in chunk and left else None
    counted.reaching = Reaching(Settings(proxy.url, None, Config()))
    counted.connection.execute("update fastq.job set max_attempts = 1")

    assert attempt(counted, gets_on) is not None
    assert (left, counted.row()["max_attempts"]) == ([], 3)


def test_the_number_of_attempts_ends_where_its_type_does(counted):
    counted.connection.execute("update fastq.job set attempt = 32766, max_attempts = 32767")

    assert attempt(counted, gets_on) is None
    row = archived(counted.connection, counted.id)
    assert (row["attempt"], row["errors"][-1]["error"]) == (32_767, "RuntimeError: boom")


def test_the_job_sees_how_many_attempts_it_has_by_now(counted):
    seen = []

    def work(job):
        seen.append(job.max_attempts)
        job.step("charge", int)
        seen.append(job.max_attempts)

    counted.attempt(work)
    assert seen == [2, 3]


def test_a_replay_begins_at_the_first_step_with_all_its_attempts(counted):
    from fastq import Client

    counted.connection.execute("update fastq.job set queue = 'default', args = '{}'")
    attempt(counted, gets_on)
    attempt(counted, failing)
    attempt(counted, failing)
    assert archived(counted.connection, counted.id)["max_attempts"] == 3
    with Client(counted.url) as client:
        assert client.replay(kind="stepped").jobs == 1
    [(counted.id, most, meta)] = counted.connection.execute("select id, max_attempts, meta from fastq.job")
    assert (most, meta) == (2, {"attempts": 2, "replay_of": 1})

    counted.attempt(lambda job: job.step("in attempt 1", counted.done, "again") and None)
    assert counted.calls == ["again"]
    assert archived(counted.connection, counted.id)["state"] == "completed"
