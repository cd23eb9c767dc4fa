"""Jobs that are rough with their process cost themselves an attempt, and their neighbours nothing."""

import pytest

pytestmark = pytest.mark.process

APP = "tests.process.rough:registry"


def test_what_a_job_does_to_the_event_loop_ends_no_other_job(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    neighbour = jobs.add("async_nap", seconds=1.0, max_attempts=1)
    jobs.wait_until_told("start", neighbour)

    in_task, in_callback, stops = (
        jobs.add("on_loop", what=what, max_attempts=1) for what in ("exit in a task", "exit in a callback", "stop")
    )

    assert jobs.wait_for(in_task, "discarded").errors[0]["error"] == "SystemExit: no such file"
    for id_ in (in_callback, stops, neighbour, jobs.add("async_nap")):
        assert jobs.wait_for(id_, "completed", "discarded").state == "completed"
    for reason in ("SystemExit: no such file", "a job stopped it"):
        assert reason in supervisor.said
    assert supervisor.workers == [worker]
    assert supervisor.stop()[0] == 0
