"""A job whose JSON cannot be read has its page, with the button that cancels it, and breaks no list."""

import json

import pytest
from starlette.testclient import TestClient

from fastq import Config
from fastq.web import Viewer, dashboard
from tests.db.jobs import add, session

ODD = ['{"to": "\\ud800"}', '{"n": 1e999}', "[" * 3_000 + "]" * 3_000]


@pytest.fixture(params=ODD, ids=["half a surrogate", "a number that is none", "deep"])
def job(request, database):
    """Give the id of a job with such args, which holds a unique key."""
    connection = session(database)
    [(id_,)] = connection.execute(
        "insert into fastq.job (kind, queue, state, args) values ('odd', 'emails', 'available', $1::json) returning id",
        request.param,
    )
    connection.execute(
        "insert into fastq.unique_key (key, job_id, until, since) values (decode(repeat('ab', 32), 'hex'), $1, 'end', now())", id_
    )
    connection.close()
    return id_


def test_a_job_with_json_that_cannot_be_read_shows_its_text_and_can_be_cancelled(browser, job):
    page = browser().get(f"/jobs/{job}")

    assert page.status_code == 200
    assert f"/jobs/{job}/cancel" in page.text
    assert "ud800" in page.text or "1e999" in page.text or "[[[[" in page.text
    assert browser().get("/gates").status_code == 200


def test_json_that_cannot_be_read_is_hidden_where_the_application_redacts(database, job):
    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("ada"), redact=lambda kind, what, value: value)

    text = TestClient(site).get(f"/jobs/{job}").text
    site.close()

    assert "•••" in text
    assert not any(part in text for part in ("ud800", "1e999", "[[[["))


@pytest.mark.parametrize(
    "meta",
    [
        {"workflow": 5},
        {"workflow": {"a": 1}},
        {"workflow": []},
        {"workflow": ["<b>", 1]},
        {"workflow": [-1, 0]},
        {"cause": ["<b>"], "expires": 5, "deadline": "soon", "keep_trying_for": {}, "replay_of": "x"},
        {"unique": "<b>"},
        {"unique": []},
        {"unique": [1, 2, 3]},
    ],
    ids=json.dumps,
)
def test_a_job_whose_meta_no_version_of_ours_has_written_has_its_page(browser, database, meta):
    connection = session(database)
    [job] = add(connection, meta=json.dumps(meta))
    connection.close()

    page = browser().get(f"/jobs/{job}")

    assert page.status_code == 200, page.text
    assert f"/jobs/{job}/cancel" in page.text
    assert "<b>" not in page.text
