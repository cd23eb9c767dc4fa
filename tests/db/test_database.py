"""The tests' databases: each test has its own."""

from tests.helpers import execute


def test_an_empty_database_has_no_schema_of_ours(empty_database):
    assert execute(empty_database, "select 1 from pg_namespace where nspname = 'fastq'") == []


def test_what_one_test_writes_no_other_test_sees(empty_database, server):
    execute(empty_database, "create table mine (n int)")

    assert execute(server, "select to_regclass('mine')") == [(None,)]
