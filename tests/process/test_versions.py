"""Two programs side by side, of which one is newer: each job runs in a program that can read its args, and none fails."""

import asyncio

import pytest

from fastq import AsyncClient, Client
from tests.helpers import wait_for
from tests.process import version_one, version_two

pytestmark = pytest.mark.further

ONE, TWO = "tests.process.version_one:registry", "tests.process.version_two:registry"
COUNT_UPDATES = """
    create table public.written (job bigint, state text);
    create function note() returns trigger language plpgsql as $$ begin
        insert into public.written values (new.id, new.state); return new; end $$;
    create trigger note after update on fastq.job for each row execute function note();
"""


@pytest.fixture
def client(jobs):
    with Client(jobs.url) as opened:
        yield opened


def states(jobs):
    return dict(jobs.execute("select state::text, count(*) from fastq.job group by 1"))


def seen(jobs, id_=None):
    return [line.what for line in jobs.told(id_=id_)]


def test_a_newer_program_works_jobs_of_older_args_and_of_a_former_name(supervise, jobs, client):
    older = client.enqueue(version_one.MailArgs("ada"))
    former = client.enqueue_many([version_one.PostArgs("bob"), version_one.PostArgs("eve")])
    newer = client.enqueue(version_two.MailArgs(["joe", "sue"]))

    supervise(TWO)
    jobs.wait_until_none_is_left()

    assert seen(jobs, older) == ["two mail ada"]
    assert [seen(jobs, id_) for id_ in former] == [["two post bob"], ["two post eve"]]
    assert seen(jobs, newer) == ["two mail joe,sue"]
    assert jobs.counts() == {"completed": 4}


def test_an_older_program_leaves_jobs_of_newer_args_to_a_newer_one_and_does_not_touch_them_again(supervise, jobs, client):
    supervisor = supervise(ONE)
    jobs.execute(COUNT_UPDATES)
    newer = client.enqueue_many([version_two.MailArgs(["joe"])] * 300)
    wait_for(lambda: states(jobs) == {"waiting": 300}, 20.0, f"all to wait, not {states(jobs)}")
    older = client.enqueue(version_one.MailArgs("ada"))
    jobs.wait_for(older, "completed")

    fate = jobs.fate(newer[0])
    assert (fate.state, fate.attempt, fate.errors) == ("waiting", 0, [])
    assert jobs.execute("select distinct waits_for from fastq.job") == [("worker:mail@2",)]
    assert "kind.unknown kind=mail@2" in supervisor.said
    assert client.why(newer[0]) == (
        f"job {newer[0]} waits for a worker of its kind: no living process of queue 'default' has a worker for kind 'mail' with "
        "args of version 2"
    )

    supervise(TWO)
    jobs.wait_until_none_is_left()
    assert jobs.counts() == {"completed": 301}
    assert set(seen(jobs)) == {"one mail ada", "two mail joe"}
    (most,) = jobs.execute("select max(count) from (select count(*) from written where job <> %s group by job) as updates", older)
    assert most <= (3,)  # claimed, put to waiting, claimed


def test_thousands_of_newer_jobs_that_wait_before_an_older_program_starts_cost_it_one_update_each(supervise, jobs, client):
    client.enqueue_many([version_two.MailArgs(["joe"])] * 3_000)
    jobs.execute(COUNT_UPDATES)

    supervise(ONE)
    wait_for(lambda: states(jobs) == {"waiting": 3_000}, 20.0, f"all to wait, not {states(jobs)}")

    assert jobs.execute("select state, count(*) from written group by state") == [("waiting", 3_000)]


def test_both_programs_side_by_side_run_all_jobs_of_both_once(supervise, jobs, client):
    supervise(ONE, queues="default=2")
    supervise(TWO, queues="default=2")

    for _ in range(10):
        client.enqueue_many([version_one.MailArgs("ada"), version_two.MailArgs(["joe"]), version_one.PostArgs("bob")] * 20)
    jobs.wait_until_none_is_left(40.0)

    assert jobs.counts() == {"completed": 600}
    told = [line.what.split()[-1] for line in jobs.told()]
    assert {word: told.count(word) for word in set(told)} == {"ada": 200, "joe": 200, "bob": 200}
    assert "one mail joe" not in seen(jobs)


def test_a_job_that_was_put_back_by_a_pause_of_its_kind_starts_when_the_kind_is_resumed(supervise, jobs, client):
    supervisor = supervise(TWO)
    client.pause(kind="mail")
    supervisor.wait_until_it_says("kind.paused")
    newer, older = client.enqueue(version_two.MailArgs(["joe"])), client.enqueue(version_one.MailArgs("ada"))
    wait_for(lambda: states(jobs) == {"waiting": 2}, 10.0, f"both to wait, not {states(jobs)}")
    former = client.enqueue(version_one.PostArgs("bob"))
    jobs.wait_for(former, "completed")  # a pause is of the name in the row

    client.resume(kind="mail")

    jobs.wait_for(newer, "completed")
    jobs.wait_for(older, "completed")
    assert jobs.fate(newer).attempt == 1


def test_an_upgrade_that_fails_fails_that_attempt_alone_and_the_job_is_tried_again(supervise, jobs, client):
    supervisor = supervise(TWO)
    broken = jobs.add("mail", adress="ada")
    good = client.enqueue(version_one.MailArgs("bob"))

    jobs.wait_for(good, "completed")
    fate = jobs.wait_for(broken, "retryable")

    assert fate.attempt == 1
    assert "the upgrade from version 1 raised KeyError: 'address'" in str(fate.errors[0]["error"])
    assert "args.refused" in supervisor.said


async def enqueue_in_all_ways(url):
    async with AsyncClient(url) as client:
        await client.enqueue(version_two.MailArgs(["one"]))
        await client.enqueue_many([version_two.MailArgs(["many"])])
        await client.enqueue_copy([version_two.MailArgs(["copy"])])


def test_the_version_travels_with_jobs_that_are_enqueued_in_any_way(jobs, client):
    asyncio.run(enqueue_in_all_ways(jobs.url))
    client.enqueue_copy([version_two.MailArgs(["copy"])] * 2)
    client.enqueue(version_two.MailArgs(["later"]), delay=60, expires=90)
    client.enqueue(version_one.MailArgs("plain"))

    rows = jobs.execute("select meta ->> 'version', count(*) from fastq.job group by 1 order by 1")
    assert rows == [("2", 6), (None, 1)]
    assert jobs.execute("select count(*) from fastq.job where meta is null") == [(1,)]
