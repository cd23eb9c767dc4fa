"""Jobs whose kind a process does not know: they rest without churn, and start at once where and when a process knows them."""

import os
import signal

from tests.helpers import wait_for

LATE = "tests.process.jobs:registry_with_late"
COUNT_UPDATES = """
    create table public.written (job bigint, state text);
    create function note() returns trigger language plpgsql as $$ begin
        insert into public.written values (new.id, new.state); return new; end $$;
    create trigger note after update on fastq.job for each row execute function note();
"""
HOLD = """
    create function hold() returns trigger language plpgsql as $$ begin
        if new.state = 'waiting' then perform pg_advisory_xact_lock(7); end if; return new; end $$;
    create trigger hold before update on fastq.job for each row execute function hold();
"""
LOCKED = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


def states(jobs):
    return dict(jobs.execute("select state::text, count(*) from fastq.job group by 1"))


def test_jobs_of_a_kind_that_no_process_knows_rest_and_start_with_the_first_that_knows_it(supervise, jobs):
    supervisor = supervise(procs="2")
    jobs.execute(COUNT_UPDATES)
    ids = jobs.add_all("late", [{}] * 300, max_attempts=1)
    wait_for(lambda: states(jobs) == {"waiting": 300}, 10.0, f"all to wait, not {states(jobs)}")
    nap = jobs.add("nap")
    jobs.wait_for(nap, "completed")

    fate = jobs.fate(ids[0])
    assert (fate.state, fate.attempt, fate.errors, fate.scheduled_at) == ("waiting", 0, [], None)
    assert supervisor.said.count("kind.unknown") <= 2  # one in each process
    assert "kind.unknown kind=late" in supervisor.said

    other = supervise(LATE)
    jobs.wait_until_none_is_left()
    assert jobs.counts() == {"completed": 301}
    (most,) = jobs.execute("select max(count) from (select count(*) from written where job <> %s group by job) as updates", nap)
    assert most <= (3,)  # claimed, put to waiting, claimed
    assert "kind.let_go kinds=late" in other.said
    assert {line.pid for line in jobs.told("start") if line.id != nap} <= set(other.workers)
    assert [line.attempt for line in jobs.told("start", ids[0])] == [1]


def test_thousands_of_jobs_of_an_unknown_kind_are_put_to_waiting_with_one_update_each_and_not_touched_again(supervise, jobs):
    supervise(procs="2")
    jobs.execute(COUNT_UPDATES)
    jobs.add_all("late", [{}] * 3_000)
    wait_for(lambda: states(jobs) == {"waiting": 3_000}, 20.0, f"all to wait, not {states(jobs)}")
    nap = jobs.add("nap")
    jobs.wait_for(nap, "completed")

    assert jobs.execute("select state, count(*) from written where job <> %s group by state", nap) == [("waiting", 3_000)]


def test_jobs_of_an_unknown_kind_that_come_after_others_are_met_by_a_claim_and_the_rest_put_to_waiting_with_one_update(
    supervise, jobs
):
    supervise(procs="2")
    nap = jobs.add("nap")
    jobs.wait_for(nap, "completed")
    jobs.execute(COUNT_UPDATES)
    jobs.add_all("late", [{}] * 3_000)
    wait_for(lambda: states(jobs) == {"waiting": 3_000}, 20.0, f"all to wait, not {states(jobs)}")

    written = dict(jobs.execute("select state, count(*) from written group by state"))
    assert written["waiting"] == 3_000
    assert written.get("running", 0) <= 100  # by which the process that had worked the nap came to know of the kind


def test_a_trigger_that_refuses_what_is_put_to_waiting_holds_up_nothing(supervise, jobs):
    supervisor = supervise()
    late = jobs.add_all("late", [{}] * 100, wake=False)
    jobs.execute(f"""
        create function refuse() returns trigger language plpgsql as $$ begin
            if new.id = {late[50]} and old.state = 'available' and new.state = 'waiting' then raise 'not so'; end if;
            return new; end $$;
        create trigger refuse before update on fastq.job for each row execute function refuse();
    """)

    nap = jobs.add("nap")

    assert jobs.wait_for(nap, "completed").attempt == 1
    wait_for(lambda: states(jobs) == {"waiting": 100}, 10.0, f"all to wait, not {states(jobs)}")
    assert "rest.refused" in supervisor.said


def test_a_job_that_comes_to_the_wrong_process_of_a_shared_queue_is_executed_by_the_right_one(supervise, jobs):
    supervise(queues="default=2", procs="2")
    right = supervise(LATE, queues="default=2")
    jobs.execute(COUNT_UPDATES)

    for _ in range(20):
        jobs.wait_for(jobs.add("late", max_attempts=1), "completed")
    ids = jobs.add_all("late", [{}] * 500)
    jobs.wait_until_none_is_left()

    assert jobs.counts() == {"completed": 520}
    assert {line.pid for line in jobs.told("start")} == set(right.workers)
    (most,) = jobs.execute("select max(count) from (select count(*) from written group by job) as updates")
    assert most <= (3,)
    assert len(ids) == 500


def test_it_gets_there_without_notifications_too(supervise, jobs):
    settings = {"poll_only": "on", "poll_interval": "0.05"}
    supervise(**settings)
    supervise(LATE, **settings)

    jobs.add_all("late", [{}] * 200)
    jobs.wait_until_none_is_left()

    assert jobs.counts() == {"completed": 200}


def test_a_missed_hint_is_made_up_for_when_the_listener_is_back(supervise, jobs):
    supervisor = supervise(LATE)
    jobs.wait_for(jobs.add("late"), "completed")  # the look at the start is over
    with jobs.connection.transaction():
        jobs.execute("insert into fastq.job (kind, state, seq, waits_for) values ('late', 'waiting', null, 'worker:late')")
    assert states(jobs) == {"waiting": 1}

    jobs.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'fastq listener'")

    jobs.wait_until_none_is_left(5.0)
    assert "listener.waits" in supervisor.said


def test_jobs_of_a_kind_rest_again_when_the_processes_that_knew_it_have_died(supervise, jobs):
    supervise()
    right = supervise(LATE)
    jobs.wait_for(jobs.add("late"), "completed")
    right.send_all(signal.SIGKILL)
    right.process.wait()

    late = jobs.add_all("late", [{}] * 10)
    wait_for(lambda: states(jobs) == {"waiting": 10}, 10.0, "all to wait")

    supervise(LATE)
    jobs.wait_until_none_is_left()
    assert {jobs.fate(id_).attempt for id_ in late} == {1}


def test_a_process_that_is_killed_while_it_puts_a_job_to_waiting_loses_nothing(supervise, jobs):
    supervisor = supervise()
    jobs.wait_for(jobs.add("nap"), "completed")  # from here on the process meets a job by claiming it
    jobs.execute(HOLD)
    jobs.execute("select pg_advisory_lock(7)")
    late = jobs.add("late", max_attempts=1)
    wait_for(lambda: jobs.execute(LOCKED) == [(1,)], 10.0, "the completer to put it to waiting")
    assert jobs.fate(late).state == "running"

    os.kill(supervisor.workers[0], signal.SIGKILL)
    supervisor.wait_until_it_says("process.died")
    jobs.execute("select pg_advisory_unlock(7)")

    fate = jobs.wait_for(late, "waiting")
    assert (fate.attempt, fate.crashes, fate.errors) == (0, 0, [])
    supervise(LATE)
    assert jobs.wait_for(late, "completed").attempt == 1


def test_a_process_that_is_killed_with_jobs_that_had_waited_gives_them_back(supervise, jobs):
    supervise(queues="default=1")
    late = jobs.add_all("late", [{"seconds": 60}] * 3)
    wait_for(lambda: states(jobs) == {"waiting": 3}, 10.0, "all to wait")
    right = supervise(LATE, queues="default=1")
    wait_for(lambda: states(jobs).get("running", 0) >= 1, 10.0, "one to run")

    right.send_all(signal.SIGKILL)
    right.process.wait()

    # Their process is gone: the leader gives them back, and the process that is left puts them to waiting again.
    wait_for(lambda: states(jobs) == {"waiting": 3}, 15.0, f"all to wait again, not {states(jobs)}")
    assert sum(jobs.fate(id_).attempt for id_ in late) >= 1  # that of the one that ran


def test_a_waiting_job_that_a_trigger_does_not_let_be_claimed_holds_up_no_other(supervise, jobs):
    supervise()
    late = jobs.add_all("late", [{}] * 50)
    wait_for(lambda: states(jobs) == {"waiting": 50}, 10.0, "all to wait")
    jobs.execute(f"""
        create function refuse() returns trigger language plpgsql as $$ begin
            if new.id = {late[3]} and new.state = 'running' then raise 'not this one'; end if; return new; end $$;
        create trigger refuse before update on fastq.job for each row execute function refuse();
    """)

    right = supervise(LATE)
    wait_for(lambda: states(jobs) == {"waiting": 1}, 10.0, f"the others to end, not {states(jobs)}")

    right.wait_until_it_says(f"claim.job_skipped id={late[3]} kind=late")
    nap = jobs.add("nap")
    assert jobs.wait_for(nap, "completed").attempt == 1


def test_waiting_jobs_of_a_paused_queue_stay_and_start_when_it_is_resumed(supervise, jobs):
    supervise()
    late = jobs.add("late")
    jobs.wait_for(late, "waiting")
    jobs.execute("insert into fastq.queue (name, paused_at) values ('default', now())")
    supervise(LATE)
    other = jobs.add("late", queue="other")
    assert jobs.fate(late).state == "waiting"
    assert jobs.fate(other).state == "available"

    jobs.execute("update fastq.queue set paused_at = null")
    jobs.execute("select pg_notify('fastq', '@waiting default')")

    jobs.wait_for(late, "completed", timeout=5.0)
