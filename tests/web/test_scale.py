"""The pages of the dashboard with many jobs: none walks through a table, and each first view is small.

The same program asks with millions (`python -m bench.scale`); docs/dashboard.md has its figures.
"""

import pytest

from bench.scale import filling, pages, words
from bench.scale.ground import opened
from fastq import Config
from tests.helpers import create_database, drop_database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # minutes on a machine that others use

LIVING, FINISHED, DAYS = 30_000, 120_000, 2
LARGER = {"/hosts"}  # it grows with the processes of the cluster: with forty of them a little beyond


@pytest.fixture(scope="module")
def ground(server, tmp_path_factory):
    """Give a ground in a database of the tests' server, and a configuration for it."""
    name = "fastq_test_scale"
    url = create_database(server, name)
    made = opened(tmp_path_factory.mktemp("ground"), LIVING, FINISHED, DAYS)
    config = Config(database_url=url)
    assert filling.fill(made, config, 600.0)
    yield made, config
    drop_database(server, name)


def test_no_page_walks_through_a_table_and_each_first_view_is_small(ground):
    made, config = ground
    rows = pages.measure(made, config, 1)

    assert len(rows) > 60
    assert {row.path: row.status for row in rows if row.status not in (200, 404)} == {}
    walked = {row.path: set(row.walked.split()) - {"gate_permit", "process"} for row in rows if "q=" not in row.path}
    assert {path: tables for path, tables in walked.items() if tables} == {}, (
        "but small ones; a search may read the whole of a small day"
    )
    beside = sum(len(file.body) for file in pages.STATIC.values())
    large = {row.path: row.bytes for row in rows if row.bytes + beside > pages.MOST_BYTES}
    assert {path for path in large if not path.endswith("/log")} <= LARGER, "a log is shown as a whole"


def test_each_route_that_is_read_is_asked_for(ground):
    made, config = ground
    site = pages.dashboard(config, auth=lambda _: None)
    connection = pages.session(config)
    known = pages.addresses(made, connection)
    connection.close()
    site.close()

    paths = {route.path for route in site.routes if "GET" in route.methods}
    assert {path for path in paths if "{" in path and path not in known} == {"/static/{name}"}


def test_each_word_of_the_search_is_answered_to_its_end(ground):
    made, config = ground
    found = {row.words: row for row in words.measure(made, config, "needle|haystack")}

    assert [
        found[name].found for name in ("kind:needle", "tag:needle", "error:haystack", "args.needle:42", "meta.needle:yes")
    ] == [1] * 5
    assert found["kind:none"].found == 0
