"""A periodic job of a real host: one job each second, whoever leads, for as long as somebody declares it."""

import signal
from dataclasses import dataclass
from datetime import timedelta

import pytest

from fastq import Args, Backfill, Every, Job, Registry, Worker
from fastq.admin.periodic import list_periodic
from tests.db.jobs import session
from tests.helpers import Stopwatch, after_renewals, wait_for
from tests.process.jobs import tell

pytestmark = pytest.mark.process

registry = Registry()
APP = "tests.process.test_periodic:registry"
SETTINGS = {"lease_ttl": "1"}


@dataclass
class PulseArgs(Args, kind="pulse"):
    pass


@registry.register
class PulseWorker(Worker[PulseArgs]):
    def work(self, job: Job[PulseArgs]) -> None:
        tell(job, f"tick {job.tick}")


registry.periodic("pulse", Every(1), PulseArgs(), missed=Backfill(1000), run_on_start=True)


def ticks(jobs):
    """Return the ticks that jobs were enqueued for, in order, without the run at the start."""
    rows = jobs.execute("select tick from fastq.periodic_tick order by tick")
    return [tick for (tick,) in rows if not tick.microsecond]


def check(jobs):
    """None twice and none missing, and each has its job."""
    found = ticks(jobs)
    assert found == [found[0] + timedelta(seconds=number) for number in range(len(found))]
    assert jobs.execute("select count(*) from fastq.periodic_tick") == jobs.execute(
        "select count(*) from (select id from fastq.job union all select id from fastq.job_archive) as job"
    )


def test_a_job_a_second_is_worked_at_its_second(supervise, jobs):
    watch = Stopwatch()
    supervisor = supervise(app=APP)
    wait_for(lambda: len(jobs.told()) >= 5, 20, "five pulses")
    code, _ = supervisor.stop()

    assert code == 0
    check(jobs)
    late = jobs.execute(
        "select percentile_cont(0.5) within group (order by extract(epoch from a.created_at - t.tick)) "
        "from fastq.periodic_tick t join fastq.job_archive a on a.id = t.job_id"
    )
    assert late[0][0] < 0.2 + watch.busy() / 5, "of five pulses that share what the machine had to do"
    assert jobs.execute("select count(*) from fastq.process") == [(0,)]
    with_state = session(jobs.url)
    assert [row.state for row in list_periodic(with_state)] == ["undeclared"]
    with_state.close()


@pytest.mark.slow
@pytest.mark.lease("L52", "L54")
def test_no_tick_is_lost_or_doubled_while_leaders_are_killed(supervise, jobs):
    seen = 0
    for _ in range(4):
        victim = supervise(app=APP, **SETTINGS)
        seen += 2
        wait_for(lambda more=seen: len(ticks(jobs)) >= more, 20, "two more ticks")
        seen = len(ticks(jobs))
        victim.send_all(signal.SIGKILL)
        victim.wait()
    last = supervise(app=APP, **SETTINGS)
    ready = jobs.execute("select date_trunc('second', clock_timestamp())")[0][0]
    wait_for(lambda: ticks(jobs)[-1] >= ready, 20, "the ticks that were missed")

    assert last.stop()[0] == 0
    check(jobs)


@pytest.mark.slow
@pytest.mark.lease("L52")
def test_a_leader_without_the_definition_enqueues_it_while_another_host_declares_it(supervise, jobs):
    leader = supervise(**SETTINGS, queues="nothing")  # the application of the other tests, which knows no pulse
    leader.wait_until_it_says("lease.acquired")
    other = supervise(app=APP, lead="0", **SETTINGS)
    wait_for(lambda: len(jobs.told()) >= 3, 20, "three pulses")

    assert other.stop()[0] == 0
    living = "select count(*) from fastq.process where periodic <> '{}' and expires_at > clock_timestamp()"
    wait_for(lambda: jobs.execute(living) == [(0,)], what="nobody to declare it")
    after_renewals(jobs.url, "leader:default", 1)  # what was read just before that has been enqueued
    before = len(ticks(jobs))
    after_renewals(jobs.url, "leader:default", 6)  # 2.4 s, two ticks
    assert len(ticks(jobs)) == before, "nobody declares it any more"
    assert leader.stop()[0] == 0
    check(jobs)
