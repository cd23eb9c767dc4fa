"""Encrypted args from the enqueue to the work: nothing in the database, in the log or in an error has them."""

import asyncio
import base64
from dataclasses import replace

import pytest

from fastq import AsyncClient, Client, Config, Secret, Workflow
from fastq.args.secret import ring
from tests.helpers import wait_for
from tests.process.sealed import BuyArgs, PayArgs, digest

pytestmark = pytest.mark.further

APP = "tests.process.sealed:registry"
CARD = "4111-2222-3333-4444"
OLD, NEW = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
EVERYTHING = """select string_agg(row::text, '') from (
    select job::text from fastq.job as job union all select job::text from fastq.job_archive as job union all
    select dead::text from fastq.dead as dead union all select w::text from fastq.workflow as w union all
    select periodic::text from fastq.periodic as periodic) as everything (row)"""


def config(jobs, keys, **given):
    return replace(Config.load(args_keys=keys, **given), database_url=jobs.url)


@pytest.fixture
def client(jobs):
    with Client(config=config(jobs, f"old:{OLD}")) as opened:
        yield opened
    ring.forget()


async def enqueue_async(jobs):
    async with AsyncClient(config=config(jobs, f"old:{OLD}")) as client:
        await client.enqueue(PayArgs(CARD))
        await client.enqueue_many([BuyArgs(1, Secret(CARD))])
        await client.enqueue_copy([PayArgs(CARD)])


def test_jobs_that_are_enqueued_in_any_way_are_stored_encrypted_and_worked(supervise, jobs, client):
    client.enqueue(PayArgs(CARD))
    client.enqueue_many([PayArgs(CARD), BuyArgs(1, Secret(CARD), [Secret(CARD)])] * 50)
    client.enqueue_copy([BuyArgs(1, Secret(CARD))] * 2)
    asyncio.run(enqueue_async(jobs))
    flow = Workflow("sale", on_finish=PayArgs(CARD))
    first = flow.add(PayArgs(CARD), name="first")
    flow.add(BuyArgs(2, Secret(CARD)), name="second", after=first)
    client.enqueue_workflow(flow)
    jobs.add("pay", card=CARD[::-1])  # of a program that encrypted nothing

    supervisor = supervise(APP, args_keys=f"old:{OLD}")
    wait_for(lambda: jobs.counts() == {"completed": 110}, 40.0, "all to complete")

    told = [line.what.split()[1] for line in jobs.told()]
    assert {digest(CARD): 109, digest(CARD[::-1]): 1} == {word: told.count(word) for word in set(told)}
    [(stored,)] = jobs.execute(EVERYTHING)
    assert CARD not in stored
    assert CARD not in supervisor.said


def test_a_failure_is_told_without_the_args_in_the_row_the_log_and_the_traceback(supervise, jobs, client):
    client.enqueue(PayArgs(CARD, fails=True), max_attempts=1)
    client.enqueue(BuyArgs(0, Secret(CARD)))

    supervisor = supervise(APP, args_keys=f"old:{OLD}")
    jobs.wait_until_none_is_left()

    [(stored,)] = jobs.execute(EVERYTHING)
    assert CARD not in stored
    assert CARD not in supervisor.said
    errors = [error for (error,) in jobs.execute("select errors -> -1 ->> 'error' from fastq.job_archive order by id")]
    assert errors == [
        "ValueError: ••• was refused: PayArgs(•••)",
        "ValueError: ••• was refused: BuyArgs(user=0, card=Secret(•••), others=[])",
    ]
    assert CARD not in str(client.get(1)) + str(client.get(2))
    assert client.get(1).args == "•••"
    assert client.get(2).args == {"user": 0, "card": "•••", "others": []}


def test_a_job_of_an_unknown_key_fails_alone_is_tried_again_and_runs_where_the_key_is(supervise, jobs, client):
    sealed = client.enqueue(PayArgs(CARD))
    plain = jobs.add("pay", card="plain")

    supervisor = supervise(APP, args_keys=f"new:{NEW}")
    jobs.wait_for(plain, "completed")
    fate = jobs.wait_for(sealed, "retryable")

    assert fate.attempt == 1
    assert fate.errors[0]["error"] == (
        "ArgsError: args of kind 'pay': encrypted with the key 'old', and this program has new alone: set FASTQ_ARGS_KEYS, or "
        "call fastq.use_keys"
    )
    supervisor.stop()
    supervise(APP, args_keys=f"new:{NEW},old:{OLD}")
    jobs.wait_for(sealed, "completed", timeout=20.0)
    assert [line.what for line in jobs.told(id_=sealed)] == [f"pay {digest(CARD)}"]


def test_a_program_with_encrypted_args_and_without_keys_does_not_start(supervise, jobs):
    supervisor = supervise(APP, ready=False)

    code, _ = supervisor.wait()

    assert code == 2
    assert "encrypted args need a key: set FASTQ_ARGS_KEYS" in supervisor.said


def test_a_periodic_job_is_defined_and_ticks_encrypted(supervise, jobs):
    settings = {"procs": "1", "args_keys": f"old:{OLD}"}
    supervise("tests.process.sealed_ticks:registry", **settings)

    jobs.wait_until_told(f"pay {digest('4242-TICK')}", times=2)

    [(stored,)] = jobs.execute(EVERYTHING)
    assert "4242-TICK" not in stored


def test_a_rotation_lets_an_old_key_go_while_jobs_wait_and_leaves_the_running_ones(supervise, jobs, client):
    waiting = client.enqueue_many([PayArgs(CARD), BuyArgs(1, Secret(CARD), [Secret(CARD)])] * 300, delay=3_600)
    (running,) = client.enqueue_many([PayArgs(CARD)], delay=3_600)
    jobs.execute("update fastq.job set state = 'running', scheduled_at = null, seq = 1, claim = 1 where id = %s", int(running))

    with Client(config=config(jobs, f"new:{NEW},old:{OLD}")) as rotating:
        pay, buy = rotating.rotate_keys("pay"), rotating.rotate_keys("buy")
        again = rotating.rotate_keys("buy")

    assert (pay.jobs, pay.left, pay.unreadable, pay.key) == (300, 1, 0, "new")
    assert (buy.jobs, buy.left, buy.unreadable) == (300, 0, 0)
    assert (again.jobs, again.left) == (0, 0)
    names = jobs.execute("select count(*), bool_or(args::text like '%\"old\"%') from fastq.job where state <> 'running'")
    assert names == [(600, False)]
    jobs.execute("delete from fastq.job where id = %s", int(running))
    supervise(APP, args_keys=f"new:{NEW}")
    jobs.execute("update fastq.job set scheduled_at = now()")
    jobs.execute("select pg_notify('fastq', '@due')")
    jobs.wait_until_none_is_left(40.0)
    assert jobs.counts() == {"completed": 600}
    assert {line.what.split()[1] for line in jobs.told()} == {digest(CARD)}
    assert len(waiting) == 600


def test_a_rotation_counts_the_jobs_that_its_keys_do_not_open_and_an_event_loop_does_it_too(jobs, client):
    client.enqueue(PayArgs(CARD))

    async def rotate():
        async with AsyncClient(config=config(jobs, f"new:{NEW}")) as rotating:
            return await rotating.rotate_keys("pay")

    told = asyncio.run(rotate())

    assert (told.jobs, told.unreadable, told.sample) == (0, 1, 1)
    assert "encrypted with the key 'old', and this program has new alone" in told.reason
