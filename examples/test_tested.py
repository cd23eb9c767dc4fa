"""The tests of tested.py, by the fixtures of fastq's pytest plugin: `pytest examples/test_tested.py`."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from examples import tested
from examples.tested import MailArgs, sign_up
from fastq import Client, Config, Registry
from fastq.testing import Jobs


@pytest.fixture(scope="session")
def fastq_registry() -> Registry:
    return tested.registry


@pytest.fixture
def conn(fastq_config: Config) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection of which nothing is committed."""
    with psycopg.connect(fastq_config.database_url) as opened:
        yield opened
        opened.rollback()


def test_a_sign_up_enqueues_two_mails(fastq_client: Client, fastq_jobs: Jobs, conn: psycopg.Connection[Any]) -> None:
    sign_up(fastq_client, conn, "ada@example.com")

    fastq_jobs.assert_enqueued(MailArgs, to="ada@example.com", subject="Welcome", state="available", conn=conn)
    fastq_jobs.assert_enqueued(MailArgs, to="ada@example.com", state="scheduled", conn=conn)
    fastq_jobs.assert_not_enqueued(MailArgs)


def test_the_second_mail_comes_a_week_later(fastq_client: Client, fastq_jobs: Jobs, conn: psycopg.Connection[Any]) -> None:
    sign_up(fastq_client, conn, "ada@example.com")

    assert [ran.output for ran in fastq_jobs.drain(conn=conn)] == ["Welcome sent"]
    assert fastq_jobs.drain(until=timedelta(days=6), conn=conn) == []
    assert [ran.output for ran in fastq_jobs.drain(until=timedelta(days=8), conn=conn)] == ["How is it going? sent"]


def test_an_address_that_is_none_discards_the_job(fastq_client: Client, fastq_jobs: Jobs) -> None:
    fastq_client.enqueue(MailArgs("ada", "Welcome"))

    with pytest.raises(ValueError, match="'ada' is no address"):
        fastq_jobs.work_one()
    assert [ran.state for ran in fastq_jobs.drain(until=86_400, raising=False)] == ["retryable", "discarded"]
