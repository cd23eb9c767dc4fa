"""The overview tells a viewer no more than the pages that the viewer may see."""

from starlette.testclient import TestClient

from fastq import Config
from fastq.web import Viewer, dashboard
from tests.web.conftest import furnish


def seen_by(database, *permissions):
    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("rita", ["overview.read", *permissions]))
    text = TestClient(site).get("/").text
    site.close()
    return text


def test_failures_running_jobs_and_notices_are_told_to_viewers_who_may_see_their_pages(database):
    furnish(database, "buried")

    least = seen_by(database)
    assert "buried" not in least
    assert "nobody leads" not in least
    assert "4 things stand on pages that you may not see" in least
    assert "Nothing does:" not in least
    assert "ValueError: buried" in seen_by(database, "dead.read")
    assert ">report<" in seen_by(database, "jobs.read")
    assert "nobody leads" in seen_by(database, "leaders.read")
    more = seen_by(database, "queues.read", "gates.read", "periodic.read", "leaders.read")
    assert "that you may not see" not in more
    assert "the provider is down" in more
