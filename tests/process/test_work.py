"""Jobs of a healthy host: who works them, how many at once, in what order, and how soon."""

import os
import signal
import statistics
import threading
import time

import psycopg
import pytest

from tests.helpers import Stopwatch, freeze, wait_for

pytestmark = pytest.mark.process


def most_at_once(lines):
    """Return how many jobs ran at once at most, by what they told themselves."""
    running, most = 0, 0
    for line in lines:
        running += 1 if line.what == "start" else -1
        most = max(most, running)
    return most


def seconds_until_start(jobs, count, pause, **options):
    """Enqueue into an idle queue some times; return how long each job took to start."""
    waits = []
    for number in range(1, count + 1):
        time.sleep(pause * number / count)  # not in step with any poll
        before = time.monotonic()
        id_ = jobs.add("nap", **options)
        waits.append(jobs.wait_until_told("end", id_)[0].at - before)
    return waits


def seconds_until_heard(database):
    """Notify from one session to another one, in two programs as a client and a host are; return how long it took."""
    with psycopg.connect(database, autocommit=True) as listening, psycopg.connect(database, autocommit=True) as notifying:
        listening.execute("listen round_trip")
        heard = threading.Thread(target=lambda: next(listening.notifies(stop_after=1)))
        heard.start()
        before = time.monotonic()
        notifying.execute("notify round_trip")
        heard.join()
        return time.monotonic() - before


def test_sync_and_async_jobs_of_one_queue_are_worked_by_threads_and_by_the_loop(supervise, jobs):
    sync = jobs.add_all("nap", [{}] * 50)
    rest = jobs.add_all("async_nap", [{}] * 50)
    supervisor = supervise(procs=2)

    jobs.wait_until_none_is_left()

    assert jobs.counts() == {"completed": 100}
    assert sorted(line.id for line in jobs.told("end")) == sorted(sync + rest)
    assert supervisor.stop()[0] == 0


def test_sync_and_async_jobs_together_use_the_concurrency_of_their_queue_and_never_exceed_it(supervise, jobs):
    for number in range(100):  # in short runs of either mode, so that there is always something for both
        jobs.add_all(("nap", "async_nap")[number % 2], [{"seconds": 0.002}] * 6, wake=False)
    supervise(queues="default=4")

    jobs.wait_until_none_is_left()

    told = jobs.told()
    assert (len(told), most_at_once(told)) == (1200, 4)
    sync = set(jobs.execute("select id from fastq.job_archive where kind = 'nap'"))
    other = [line for line in told if (line.id,) not in sync]
    assert most_at_once(other) > 1 < most_at_once([line for line in told if (line.id,) in sync])


@pytest.mark.parametrize("kind", ["nap", "async_nap"])
def test_each_queue_has_its_own_concurrency_and_uses_it(supervise, jobs, kind):
    for queue in ("default", "narrow", "nobody"):
        jobs.add_all(kind, [{"seconds": 0.01}] * 60, queue=queue, wake=False)
    supervise(procs=2, queues="default=5,narrow=1")

    wait_for(lambda: jobs.execute("select distinct queue from fastq.job") == [("nobody",)], 10, "the end of two queues")

    told = jobs.told()
    by_process = {(line.queue, line.pid): [] for line in told}
    for line in told:
        by_process[line.queue, line.pid].append(line)
    assert {queue for queue, _ in by_process} == {"default", "narrow"}
    assert {most_at_once(lines) for (queue, _), lines in by_process.items() if queue == "narrow"} == {1}
    assert max(most_at_once(lines) for (queue, _), lines in by_process.items() if queue == "default") == 5


def test_slow_jobs_are_not_hoarded_by_one_process_while_another_is_idle(supervise, jobs):
    supervise(procs=2, queues="default=4")

    slow = jobs.add_all("nap", [{"seconds": 1}] * 4) + jobs.add_all("async_nap", [{"seconds": 1}] * 2)
    jobs.wait_until_told("end", slow[0])

    assert {line.id for line in jobs.told("start")} >= set(slow)  # eight places, so none had to wait for another's end


def test_one_thread_works_strictly_by_priority_and_first_in_first_out(supervise, jobs):
    ids = {priority: [] for priority in (1, 2, 3, 4)}
    for number in range(200):
        priority = 4 - number % 4
        ids[priority].append(jobs.add("nap", priority=priority, wake=False))
    supervise(queues="default=1", batch=30)

    jobs.wait_until_none_is_left()

    assert [line.id for line in jobs.told("start")] == [*ids[1], *ids[2], *ids[3], *ids[4]]


def test_an_urgent_job_overtakes_what_was_enqueued_before_it(supervise, jobs):
    jobs.add_all("nap", [{"seconds": 0.05}] * 40, priority=4)
    supervise(queues="default=1")
    jobs.wait_until_told("start", times=2)

    urgent = jobs.add("nap", priority=1)
    jobs.wait_until_told("end", urgent)

    assert len(jobs.told("end")) < 20


def test_a_scheduled_job_starts_when_it_is_due_and_not_before(supervise, jobs):
    supervise()

    watch, before = Stopwatch(), time.monotonic()
    ids = {delay: jobs.add("nap", delay=delay) for delay in (0.3, 0.7, 0.5)}
    jobs.wait_until_none_is_left()

    busy = watch.busy()
    for delay, id_ in ids.items():
        (line,) = jobs.told("start", id_)
        assert delay <= line.at - before < delay + 0.25 + busy


def test_a_job_starts_within_some_round_trips_of_a_notification_on_an_idle_host(supervise, jobs, database):
    supervise(procs=2, poll_interval=30)
    jobs.wait_until_told("end", jobs.add("nap"))  # the first one prepares the statements

    waits, round_trips = [], []
    for _ in range(15):  # in turns, so that other work on the machine makes both slow
        round_trips.append(seconds_until_heard(database))
        waits += seconds_until_start(jobs, 1, 0.03)

    assert statistics.median(waits) < 15 * statistics.median(round_trips), "four, by count"
    assert max(waits) < 15, "the poll is at 30 s"


def test_more_jobs_than_one_process_has_room_for_start_in_all_of_them(supervise, jobs):
    workers = supervise(procs=3, queues="default=2", poll_interval=30).workers
    jobs.wait_until_told("start", jobs.add("nap", seconds=20))

    jobs.add_all("nap", [{"seconds": 20}] * 5)

    lines = jobs.wait_until_told("start", times=6, timeout=5.0)
    assert sorted(line.pid for line in lines) == sorted(workers * 2)


def test_a_process_that_does_not_wake_holds_up_no_job(supervise, jobs):
    supervisor = supervise(procs=2, poll_interval=30)
    jobs.wait_until_told("end", jobs.add("nap"))
    frozen = jobs.told("end")[0].pid
    freeze(frozen)

    waits = seconds_until_start(jobs, 5, 0.03)

    os.kill(frozen, signal.SIGCONT)
    assert max(waits) < 3.0, "the poll is a tenth as frequent"
    assert {line.pid for line in jobs.told("start")[1:]} == set(supervisor.workers) - {frozen}


def test_a_hint_that_says_that_jobs_come_often_has_the_host_look_by_itself(supervise, jobs):
    supervise(procs=2, poll_interval=60).wait_until_ready()
    with psycopg.connect(jobs.url) as connection:
        connection.execute("select pg_notify('fastq', '@often default')")
        jobs.add_all("nap", [{}] * 3, wake=False)
        connection.commit()

    jobs.wait_until_told("end", times=3)


def test_without_listen_a_job_starts_within_the_poll_interval(supervise, jobs):
    supervisor = supervise(poll_only="true", poll_interval=0.3)

    watch = Stopwatch()
    waits = seconds_until_start(jobs, 3, 0.3, wake=False)

    assert max(waits) < 0.3 + 0.25 + watch.busy()
    assert supervisor.sessions("listener") == 0
    assert supervisor.sessions("producer") == 1


def test_without_a_notification_a_job_starts_within_the_poll_interval(supervise, jobs):
    supervise(poll_interval=0.2)

    watch = Stopwatch()
    waits = seconds_until_start(jobs, 3, 0.2, wake=False)

    assert max(waits) < 0.2 + 0.25 + watch.busy()


def test_a_paused_queue_starts_nothing_and_goes_on_when_it_is_resumed(supervise, jobs):
    supervise(queues="default=2,other=2", poll_interval=0.1)
    running = jobs.add("patient", seconds=0.5)
    jobs.wait_until_told("start", running)
    jobs.execute("insert into fastq.queue (name, paused_at) values ('default', now())")

    waiting = jobs.add_all("nap", [{}] * 10)
    jobs.wait_for(jobs.add("nap", queue="other"), "completed")
    assert jobs.wait_for(running, "completed").output == "done"  # half a second and several polls later
    assert {jobs.fate(id_).state for id_ in waiting} == {"available"}

    jobs.execute("update fastq.queue set paused_at = null")
    jobs.wait_until_none_is_left()
    assert {line.id for line in jobs.told("end") if line.queue == "default"} == set(waiting)


def test_running_jobs_are_told_that_they_were_cancelled(supervise, jobs):
    supervisor = supervise(process_ttl=60, beat_interval=20)  # none but the notification tells
    ids = [jobs.add("patient", seconds=30), jobs.add("patient", seconds=30), jobs.add("async_nap", seconds=30)]
    spared = jobs.add("patient", seconds=1)
    jobs.wait_until_told("start", times=4)

    jobs.execute("update fastq.job set cancel_requested = true where id = any (%s)", ids)
    jobs.execute("select pg_notify('fastq', '@cancel')")

    for id_ in ids:
        fate = jobs.wait_for(id_, "cancelled", "completed", "retryable")
        assert (fate.state, fate.attempt) == ("cancelled", 1)
    assert jobs.wait_for(spared, "completed").output == "done"
    assert supervisor.stop()[0] == 0


def test_a_cancellation_without_a_notification_is_seen_by_the_next_beat(supervise, jobs):
    supervise(beat_interval=0.2)
    id_ = jobs.add("patient", seconds=30)
    jobs.wait_until_told("start", id_)

    jobs.execute("update fastq.job set cancel_requested = true where id = %s", id_)

    assert jobs.wait_for(id_, "cancelled", "completed", timeout=2).state == "cancelled"
