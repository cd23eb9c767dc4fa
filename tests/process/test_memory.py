"""What lies in the queue does not decide how much memory a worker process takes."""

from pathlib import Path

import pytest

from tests.helpers import wait_for

pytestmark = pytest.mark.further

LIMIT = 200  # MB; a process that has done nothing takes 40; where only the last claim bounded the next one, this took 1,200
MUCH, LITTLE = 67_108_864, 1_048_576  # bytes
SIZE = 250_000  # bytes; the default of FASTQ_MAX_ARGS_BYTES allows so much
SMALL = """insert into fastq.job (kind, args)
    select 'nap', json_build_object('seconds', 0) from generate_series(1, %s)"""
ALIKE = """insert into fastq.job (kind, args)
    select 'nap', json_build_object('words', json_build_array(repeat('x', %s))) from generate_series(1, %s)"""
VARIED = """insert into fastq.job (kind, args)
    select 'nap', json_build_object('words', json_build_array(
        (select string_agg(md5(number || ' ' || part), '') from generate_series(1, %s / 32) as part)))
    from generate_series(1, %s) as number"""


def peak(pid):
    """Return the most memory that a process has had, in MB."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def peak_behind(jobs, supervise, small, large, count, **settings):
    """Work so many large jobs behind many small ones; return the most memory that the worker process has had."""
    jobs.execute("insert into fastq.queue (name, paused_at) values ('default', now())")
    jobs.execute(SMALL, small)
    jobs.execute(large, SIZE, count)
    supervisor = supervise(queues="default=16", **settings)
    (pid,) = supervisor.workers
    jobs.execute("delete from fastq.queue")
    jobs.execute("select pg_notify('fastq', 'default')")
    wait_for(
        lambda: jobs.execute("select count(*) from (select from fastq.job limit 1) as first") == [(0,)], 240.0, "the last job"
    )
    return peak(pid)


def test_large_args_behind_small_ones_are_claimed_by_the_bytes_that_they_will_be(jobs, supervise):
    assert peak_behind(jobs, supervise, 12_000, ALIKE, 1_000, archive="off") < LIMIT


def test_the_bytes_are_a_setting(jobs, supervise):
    much, little = (
        peak_behind(jobs, supervise, 1_000, ALIKE, 300, archive="off", prefetch_bytes=size) for size in (MUCH, LITTLE)
    )
    assert little + 32 < much


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("large", [ALIKE, VARIED], ids=["compressed", "varied"])
def test_1500_large_jobs_behind_60000_small_ones_take_no_more_than_200_mb(jobs, supervise, large):
    assert peak_behind(jobs, supervise, 60_000, large, 1_500) < LIMIT
