"""Numbers of processes that went back, as they do in a database that is restored, or that lost its last seconds in a failover."""

import pytest

from tests.helpers import wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]


def test_a_process_whose_number_another_host_has_ends_in_order_and_another_takes_its_place(supervise, jobs):
    supervisor = supervise(procs=1, queues="default=2", beat_interval=0.2)
    running = jobs.add("patient", seconds=1, max_attempts=1)
    jobs.wait_until_told("start", running)
    (worker,) = supervisor.workers
    ((number,),) = jobs.execute("select id from fastq.process where pid = %s", worker)
    jobs.execute("update fastq.process set supervisor = 'elsewhere:1:x' where id = %s", number)

    supervisor.wait_until_it_says("process.number_taken")
    wait_for(lambda: supervisor.workers not in ([], [worker]), what="a successor")

    jobs.wait_for(running, "completed")
    later = jobs.add("nap")
    jobs.wait_for(later, "completed")
    assert jobs.execute("select supervisor from fastq.process where id = %s", number) == [("elsewhere:1:x",)]
    assert "process.died" not in supervisor.said
    assert supervisor.stop()[0] == 0
