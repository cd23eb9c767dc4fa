"""Commands in front of which somebody has put PgBouncer, in transaction mode, without a word to fastq."""

import psycopg
import pytest

from fastq import Client, Config
from fastq.errors import ConfigError
from fastq.postgres import pooler
from tests.helpers import execute
from tests.pgbouncer import pgbouncer

ADVICE = "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL that leads to Postgres itself"


@pytest.mark.process
def test_run_behind_a_pooler_that_it_does_not_know_of_ends_with_what_to_set(fastq, database, tmp_path):
    with pgbouncer(database, tmp_path) as through:
        done = fastq("run", "app:registry", "--database", through)

    assert done.returncode == 2
    assert "a pooler that shares sessions is between fastq and Postgres (it answers " in done.stderr
    assert "unsupported startup parameter" in done.stderr
    assert ADVICE in done.stderr
    assert "processes" not in done.stderr


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_that_drops_what_sessions_begin_with_is_refused(database, tmp_path, mode):
    with pgbouncer(database, tmp_path, pool_mode=mode, ignore_startup_parameters="options") as through:
        with pytest.raises(
            ConfigError, match="search_path is '\"\\$user\", public', though the session began with 'pg_catalog'"
        ) as told:
            pooler.check(Config(), through)
        assert ADVICE in str(told.value)
        pooler.check(Config(poll_only=True), through)


def test_a_pooler_that_hands_sessions_around_is_refused_though_they_are_as_we_want_them(database, tmp_path):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    for setting in pooler.PROBED:
        execute(database, f'alter database "{name}" set {setting} = {pooler.pins.PINNED_SETTINGS[setting]}')
    with (
        pgbouncer(database, tmp_path, ignore_startup_parameters="options") as through,
        pytest.raises(ConfigError, match="sessions of ours are served by the server's in turns"),
    ):
        pooler.check(Config(), through)


def test_a_server_without_a_pooler_is_taken(database):
    pooler.check(Config(), database)


def test_a_client_whose_prepared_statements_are_lost_in_a_pooler_says_what_to_set(database, tmp_path):
    with pgbouncer(database, tmp_path) as through, Client(through) as first, Client(through) as second:
        told = _what_fails(first, second)

    assert told.startswith("sessions of the database are shared by a pooler (prepared statement")
    assert ADVICE in told


def _what_fails(*clients):
    """Return what a client says that lost its prepared statements to another one."""
    for client in clients:
        try:
            client.cancel(1)
        except ConfigError as error:
            return str(error)
    return ""
