"""The page of the doctor examines when it is asked to, one at a time, and shows the findings with the lines to type."""

import threading

import pytest
from starlette.testclient import TestClient

from fastq import Config
from fastq.admin import doctor as examination
from fastq.web import READER, Viewer, dashboard
from fastq.web.cluster import doctor
from tests.db.jobs import session
from tests.web.test_pages import read


def test_nothing_is_examined_until_somebody_asks_for_it(browser, monkeypatch):
    def examined(*_):
        raise AssertionError("examined")

    monkeypatch.setattr(doctor.doctor, "examine", examined)
    text = read(browser("reader"), "/doctor").text

    assert "Nothing is examined until you ask for it" in text
    assert all(check.asks in text for check in examination.CHECKS.values())


def test_the_findings_come_with_their_meaning_and_the_line_to_type_the_worst_first(browser, database):
    connection = session(database)
    connection.execute("alter table fastq.job set (autovacuum_enabled = off)")
    connection.close()
    expected = examination.examine(Config(database_url=database), database)
    assert expected.level in ("warn", "bad")

    page = read(browser("reader"), "/doctor?examine=now")

    worst = next(finding for finding in expected.findings if finding.level == expected.level)
    assert worst.found in page.text
    assert " ".join(worst.remedy.split()) in page.text
    levels = [page.text.index(f"{level} {name}") for level, name in first_of_each(expected)]
    assert levels == sorted(levels)
    assert "Examine once more" in page.text


def first_of_each(expected):
    """Return the first finding of each level, the worst level first."""
    found = {finding.level: finding.check for finding in reversed(expected.findings) if finding.level != "ok"}
    return sorted(found.items(), key=lambda item: -examination.LEVELS.index(item[0]))


def test_one_examination_runs_at_a_time_whatever_the_address_says(browser, monkeypatch):
    began, end = threading.Event(), threading.Event()
    examine = doctor.doctor.examine

    def slow(*args):
        began.set()
        assert end.wait(30)
        return examine(*args)

    monkeypatch.setattr(doctor.doctor, "examine", slow)
    answers = []
    other = threading.Thread(target=lambda: answers.append(browser("reader").get("/doctor?examine=now")))
    other.start()
    assert began.wait(30)
    second = browser("reader").get("/doctor?examine=now&once=more")
    end.set()
    other.join()

    assert second.status_code == 503
    assert "runs already" in second.text
    assert answers[0].status_code == 200
    monkeypatch.setattr(doctor.doctor, "examine", examine)
    assert browser("reader").get("/doctor?examine=again").status_code == 200


def test_a_database_that_is_away_is_a_finding_without_the_password():
    site = dashboard("postgresql://ada:s3cret@127.0.0.1:1/none", auth=lambda _: Viewer("ada"))

    answer = TestClient(site).get("/doctor?examine=now")

    assert answer.status_code == 503
    assert "s3cret" not in answer.text


@pytest.mark.parametrize("may", [READER - {"doctor.read"}])
def test_it_takes_a_permission_of_its_own(database, may):
    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("rita", may))

    assert TestClient(site).get("/doctor?examine=now").status_code == 403
    assert "/doctor" not in TestClient(site).get("/").text
    site.close()
