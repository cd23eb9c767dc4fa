"""A supervisor beside a session that keeps the server's queue of notifications full."""

import pytest

pytestmark = pytest.mark.process


def test_jobs_fail_succeed_and_are_put_off_while_the_queue_of_notifications_is_full(supervise, jobs, full_queue):
    supervisor = supervise()
    due = jobs.add("nap", delay=1.0)
    queue = full_queue()

    failed = [jobs.add("outcome", what="raise", max_attempts=1, wake=False) for _ in range(4)]
    retried = [jobs.add("outcome", what="raise", max_attempts=5, wake=False) for _ in range(4)]
    done = [jobs.add("nap", wake=False) for _ in range(4)]

    assert [jobs.wait_for(job, "discarded").attempt for job in failed] == [1] * 4
    assert [jobs.wait_for(job, "retryable").attempt for job in retried] == [1] * 4
    assert [jobs.wait_for(job, "completed").attempt for job in [*done, due]] == [1] * 5
    assert jobs.execute("select count(*) from fastq.job where state = 'running'") == [(0,)]
    supervisor.wait_until_it_says('hints.refused error="too many notifications in the NOTIFY queue" used=')
    supervisor.wait_until_it_says(f"pid {queue.pid} ")
    assert "completions.unwritten" not in supervisor.said
    assert "completion.refused" not in supervisor.said
    assert supervisor.stop()[0] == 0
