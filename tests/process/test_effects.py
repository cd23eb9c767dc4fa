"""`job.transaction()` in real processes: killed in it and behind it, taken away, interrupted; the effect is there once."""

import signal

import pytest

from tests.helpers import wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]
APP = "tests.process.effects:registry"
TAKE_AWAY = "update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), claim = null where id = %s"
END_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where backend_xid is not null and pid <> pg_backend_pid()"
both = pytest.mark.parametrize("kind", ["effect", "effect_async"])


@pytest.fixture
def effects(jobs):
    """Give the jobs, beside a table of the user's."""
    jobs.execute("create table effect (job bigint)")
    return jobs


def written(jobs):
    return [job for (job,) in jobs.execute("select job from effect order by job")]


@both
def test_a_job_whose_process_is_killed_in_its_transaction_takes_effect_once(supervise, effects, kind):
    supervise(APP)
    job = effects.add(kind, killed="in")

    fate = effects.wait_for(job, "completed")

    assert (fate.attempt, fate.crashes, len(effects.told("written", job))) == (2, 1, 2)
    assert written(effects) == [job]


@both
def test_a_job_whose_process_is_killed_behind_its_transaction_is_done(supervise, effects, kind):
    supervisor = supervise(APP)
    killed = effects.add(kind, killed="after")
    supervisor.wait_until_it_says("process.died")
    after = effects.add(kind)
    effects.wait_until_none_is_left()

    fate = effects.fate(killed)
    assert (fate.state, fate.attempt, fate.crashes, fate.errors) == ("completed", 1, 0, [])
    assert len(effects.told("start", killed)) == 1
    assert written(effects) == [killed, after]


@both
def test_a_job_that_was_taken_away_in_its_transaction_takes_effect_once(supervise, effects, tmp_path, kind):
    supervisor = supervise(APP)
    gate = tmp_path / "gate"
    job = effects.add(kind, gate=str(gate))
    effects.wait_until_told("written", job)
    effects.execute(TAKE_AWAY, job)
    gate.touch()

    assert effects.wait_for(job, "completed").errors == []
    effects.wait_until_told("lost", job)
    supervisor.wait_until_it_says(f"job.lost id={job} kind={kind} attempt=1")
    assert written(effects) == [job]
    assert "ownership.lost" not in supervisor.said
    assert "job.failed " not in supervisor.said


@both
def test_an_error_behind_the_transaction_is_told_and_fails_nothing(supervise, effects, kind):
    supervisor = supervise(APP)
    job = effects.add(kind, fails=True)

    fate = effects.wait_for(job, "completed")

    supervisor.wait_until_it_says(f'job.failed_after_end id={job} kind={kind} attempt=1 error="ValueError: behind the end"')
    assert (fate.attempt, fate.errors) == (1, [])


def test_a_timeout_in_the_transaction_rolls_it_back_and_one_behind_it_does_not(supervise, effects, tmp_path):
    supervisor = supervise(APP)
    within = effects.add("effect_short", gate=str(tmp_path / "never"), max_attempts=1)
    behind = effects.add("effect_short", seconds=30)

    assert effects.wait_for(within, "discarded").errors[0]["error"].startswith("JobTimeout")
    assert effects.wait_for(behind, "completed").errors == []
    supervisor.wait_until_it_says("job.failed_after_end")
    assert written(effects) == [behind]


def test_a_job_that_hangs_behind_its_transaction_is_given_up_and_stays_done(supervise, effects):
    supervisor = supervise(APP)
    job = effects.add("effect_hang")

    supervisor.wait_until_it_says("job.given_up")
    supervisor.wait_until_it_says("process.recycles")
    assert supervisor.stop()[0] == 0
    assert (effects.fate(job).state, effects.fate(job).errors, written(effects)) == ("completed", [], [job])
    assert "ownership.lost" not in supervisor.said


def test_a_host_that_dies_in_a_transaction_leaves_nothing_of_it(supervise, effects, tmp_path):
    supervisor, gate = supervise(APP), tmp_path / "gate"
    job = effects.add("effect", gate=str(gate))
    effects.wait_until_told("written", job)
    supervisor.send_all(signal.SIGKILL)
    wait_for(lambda: supervisor.process.poll() is not None, 10, "the end of the supervisor")
    assert written(effects) == []

    gate.touch()
    supervise(APP)
    assert effects.wait_for(job, "completed", timeout=30).attempt == 2
    assert written(effects) == [job]


def test_while_its_transaction_is_under_way_a_server_that_ends_its_sessions_fails_the_attempt(supervise, effects, tmp_path):
    supervise(APP)
    gate = tmp_path / "gate"
    job = effects.add("effect", gate=str(gate))
    effects.wait_until_told("written", job)
    effects.execute(END_SESSIONS)
    gate.touch()

    fate = wait_for(lambda: (found := effects.fate(job)).errors and found, 10, "the end of the attempt")
    assert "terminating connection" in str(fate.errors[0]["error"]) or "closed" in str(fate.errors[0]["error"])
    assert effects.wait_for(job, "completed", timeout=15).attempt == 2
    assert written(effects) == [job]
