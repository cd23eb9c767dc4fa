"""The turn in which the processes of a host claim: nobody keeps it from the others for long."""

import time

from tests.helpers import wait_for

PICKED_UP = 1.0  # s; a wait for the turn is a quarter of it


def test_a_job_that_holds_the_interpreter_keeps_no_other_process_from_claiming(supervise, jobs):
    supervise(procs=2, timeout_grace=1.5)
    jobs.wait_for(jobs.add("nap"), "completed")
    stuck = jobs.add("hang", how="interpreter lock", max_attempts=1)  # until its process is killed, in about four seconds
    jobs.wait_until_told("start", stuck)

    for _ in range(3):
        began = time.monotonic()
        job = jobs.add("nap")
        (start,) = wait_for(lambda job=job: jobs.told("start", job), what="the other process to run it")
        assert start.at - began < PICKED_UP
    assert jobs.fate(stuck).state == "running"
