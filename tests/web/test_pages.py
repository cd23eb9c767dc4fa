"""Each page shows the things that are in the database, escaped, whole and small, and says what to do where there is nothing."""

import html
import re
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from fastq import Client, Config
from fastq.admin import dead
from fastq.admin.bulk import at_once
from fastq.web import READER, Viewer, dashboard
from fastq.web.look.rendering import STATIC
from fastq.web.routing.view import View
from fastq.web.site import CONTENTS
from tests.db.jobs import session
from tests.web.conftest import HOSTILE, MailArgs, furnish

FIRST_VIEW = 60_000  # bytes, with the script and the style sheet
PLAIN = [view.path for view in CONTENTS if isinstance(view, View) and "{" not in view.path]
OURS = """
    a b body button code dd details div dl dt fieldset form g h1 h2 h3 head header html input label legend li link main meta nav
    ol option p path pre progress rect script section select span strong summary svg table tbody td text th thead time title tr ul
"""
ELEMENTS = set(OURS.split())
"""The elements that our own templates make."""


def paths_of(made, database):
    """Return an address of each page."""
    connection = session(database)
    [group] = dead.list_dead(connection).groups
    connection.close()
    special = {"/dead/group": f"/dead/group?group={group.id}", "/periodic/show": "/periodic/show?name=daily"}
    paths = [special.get(path, path) for path in PLAIN]
    jobs = [f"/jobs/{made[name]}" for name in ("running", "dead", "waiting")]
    return [
        *paths,
        *jobs,
        "/doctor?examine=now",
        f"/jobs/{made['running']}/log",
        f"/workflows/{made['workflow']}",
        f"/operations/{made['operation']}",
        "/jobs?state=discarded",
        f"/jobs/{made['dead']}?full=1",
    ]


class Parsed(HTMLParser):
    """The elements of a page, its text, and the attributes that could run something."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.odd, self.texts, self.ids = set(), [], [], []
        self.feed(text)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            runs = name in ("href", "src", "action") and not re.match(r"(/(?!/)|#)", value or "")
            if name.startswith("on") or name == "style" or runs:
                self.odd.append((tag, name, value))

    def handle_data(self, data):
        self.texts.append(data)


def read(client, path):
    """Return a page, parsed."""
    answer = client.get(path)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return Parsed(answer.text)


@pytest.mark.parametrize(
    "text", ["plain", HOSTILE, "javascript:alert(1)//\u2028\r\n\x1b[31m", "{{ 7*7 }}{% include 'x' %}", "é✗€" * 60]
)
def test_no_text_of_a_job_becomes_an_element_or_runs(browser, database, text):
    made = furnish(database, text)
    client = browser("operator")

    for path in paths_of(made, database):
        page = read(client, path)
        assert page.elements <= ELEMENTS, path
        assert page.odd == [], path
        assert len(page.ids) == len(set(page.ids)), path
    assert "49" not in read(client, f"/jobs/{made['dead']}").text.replace("2026", "").split("ValueError")[1][:40]


@pytest.mark.parametrize("name", ["confirm"])
def test_no_text_of_an_address_becomes_an_element(browser, database, name):
    client = browser("operator")
    for path in ("/queues/pause?name=", "/kinds/pause?name=", "/gates/set?name=", "/jobs?kind=", "/dead?cause=", "/nowhere/"):
        page = Parsed(client.get(path + "%3Cscript%3Ealert(1)%3C/script%3E%22%27").text)
        assert page.elements <= ELEMENTS
        assert page.odd == []


def test_each_page_tells_what_is_there(browser, database):
    made = furnish(database)
    client = browser("operator")

    overview = read(client, "/").text
    assert "nobody leads" in overview
    assert "1 job of kind 'plain': no living process of queue 'emails' has a worker for kind 'plain'" in overview
    assert "kind 'letters' is paused" in overview
    assert "the provider is down" in overview
    running = read(client, f"/jobs/{made['running']}").text
    assert "runs on web-1plain (pid 99)" in running
    assert "40 %" in running
    assert "INFO" in running.upper()
    dead_job = read(client, f"/jobs/{made['dead']}").text
    assert "ValueError: plain" in dead_job
    assert "Traceback plain" in dead_job
    assert '"url": "plain"' in dead_job
    assert "every hour" in read(client, "/periodic").text
    assert "1 of 1 at most" in read(client, "/gates").text or "mail-api" in read(client, "/gates").text
    assert "first" in read(client, f"/workflows/{made['workflow']}").text
    assert "pid 99" in read(client, "/hosts").text
    assert "schema" in read(client, "/leaders").text
    assert "3 of 10" in read(client, "/operations").text
    operation = read(client, f"/operations/{made['operation']}").text
    assert "refused: plain" in operation
    assert "asked by plain" in operation.lower()
    audit = read(client, "/audit").text
    assert '"to":"plain"' in audit.replace(" ", "")
    assert "queue plain" in audit


def test_an_empty_database_says_on_each_page_how_to_begin(browser):
    client = browser("operator")

    for path in PLAIN:
        if path not in ("/dead/group", "/periodic/show"):
            assert 'class="empty' in client.get(path).text, path
    assert client.get("/periodic/show").status_code == 400
    assert client.get("/dead/group?group=00").status_code == 404


def test_the_first_view_of_each_page_is_small(browser, database):
    made = furnish(database)
    with Client(database) as client:
        client.enqueue_many([MailArgs("x" * 5_000)] * 100)
    client = browser("operator")
    shared = sum(len(one.body) for one in STATIC.values())

    for path in paths_of(made, database):
        assert len(client.get(path).content) + shared <= FIRST_VIEW, path


def test_a_job_shows_its_first_part_and_with_full_all_of_it(browser, database):
    with Client(database) as client:
        job = client.enqueue(MailArgs("x" * 50_000 + "END"))
    client = browser("operator")

    assert "END" not in client.get(f"/jobs/{job}").text
    assert "END" in client.get(f"/jobs/{job}?full=1").text


def test_jobs_are_filtered_and_paged_by_the_address(browser, database):
    with Client(database) as client:
        ids = client.enqueue_many([MailArgs(f"{n}") for n in range(60)])
        client.cancel(ids[0])
    client = browser("reader")

    def shown(path):
        return [int(one) for one in re.findall(r'href="/jobs/(\d+)"', client.get(path).text)]

    assert shown("/jobs") == ids[:19:-1]
    [older] = re.findall(r'href="([^"]+)" rel="next"', client.get("/jobs").text)
    assert shown(html.unescape(older)) == ids[19::-1]
    assert shown("/jobs?state=cancelled&state=discarded") == [ids[0]]
    assert shown("/jobs?kind=other") == []
    assert shown("/jobs?queue=emails&tag=welcome&kind=mail") == ids[:19:-1]
    assert client.get(f"/jobs?id={ids[5]}").headers["location"] == f"/jobs/{ids[5]}"
    assert shown("/jobs?q=kind:mail+-tag:other+id:1..3&state=available") == [3, 2]
    for odd in (
        "/jobs?id=odd",
        "/jobs?id=0",
        f"/workflows?before={'9' * 5000}",
        "/jobs?kind=%00",
        "/dead?since=1y",
    ):
        assert client.get(odd).status_code == 400, odd


@pytest.mark.parametrize("query", ["state=odd", "q=knid:mail", "q=since:soon", "after=odd", "q=<b>"])
def test_a_filter_that_is_wrong_says_so_above_an_empty_list_and_keeps_its_words(browser, query):
    text = browser("reader").get(f"/jobs?{query}").text

    assert 'role="alert"' in text
    assert "expected" in text
    assert "<b>" not in text
    assert "data-key" not in text.partition("</form>")[2]


def test_words_about_args_are_for_those_who_may_see_args(browser, database):
    with Client(database) as client:
        first, _ = client.enqueue_many([MailArgs("ada"), MailArgs("bob")])
    path = "/jobs?q=args.to:ada&state=available"

    asked = browser("reader").get(path)
    assert asked.headers["location"] == "/jobs/by-args?q=args.to%3Aada&state=available"
    found = browser("reader").get(asked.headers["location"]).text
    assert re.findall(r'href="/jobs/(\d+)"', found) == [str(first)]

    blind = dashboard(Config(database_url=database), auth=lambda _: Viewer("bea", READER - {"jobs.args"}))
    try:
        client = TestClient(blind, follow_redirects=False)
        assert client.get(path).headers["location"] == asked.headers["location"]
        assert client.get(asked.headers["location"]).status_code == 403
        assert client.get("/jobs?q=state:available").status_code == 200
    finally:
        blind.close()


@pytest.mark.parametrize("words", ["args.to:ada", "-args.to:ada", "meta.cause:crashed", "error:refused", "-error:refused"])
def test_where_values_are_redacted_no_filter_tells_them(database, words):
    made = dashboard(Config(database_url=database), auth=lambda _: Viewer("rita"), redact=lambda kind, what, value: "...")
    try:
        answer = TestClient(made).get(f"/jobs/by-args?q={words}")
        assert "this dashboard hides parts of them" in html.unescape(answer.text)
    finally:
        made.close()


FILTER = 'args.to:ada -meta.cause:crashed error:"refused by ada" kind:mail'


def test_the_filter_of_an_operation_tells_no_value_to_viewers_who_may_not_see_args(browser, database):
    connection = session(database)
    at_once.make_operation(connection, "delete", FILTER, by="otto")
    at_once.edit_jobs(connection, "edit", [int(_mail(database))], {"args": {"to": "ada"}}, "otto")
    connection.close()
    blind = dashboard(Config(database_url=database), auth=lambda _: Viewer("bea", READER - {"jobs.args"}))

    try:
        for path in ("/operations", "/operations/1", "/audit"):
            text = read(TestClient(blind), path).text
            assert "ada" not in text.replace("refused by ada", ""), path
            assert "args.to:" in text or path == "/audit"
            assert "ada" in read(browser("reader"), path).text
    finally:
        blind.close()


def test_where_values_are_redacted_no_operation_and_no_record_tells_them(database):
    connection = session(database)
    at_once.make_operation(connection, "delete", FILTER, by="otto")
    at_once.edit_jobs(connection, "edit", [_mail(database)], {"args": {"to": "ada"}}, "otto")
    at_once.edit_jobs(connection, "edit", [_mail(database)], {"args": MailArgs("ada")}, "otto")
    connection.close()
    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("rita"), redact=lambda kind, what, value: "[gone]")

    try:
        texts = "".join(read(TestClient(site), path).text for path in ("/operations", "/operations/1", "/audit"))
    finally:
        site.close()
    assert "ada" not in texts
    assert "[gone]" in texts


def _mail(database):
    with Client(database) as client:
        return int(client.enqueue(MailArgs("bob")))


@pytest.mark.parametrize(
    "path",
    [
        "/operations/4711",
        "/jobs/4711",
        "/jobs/0",
        "/jobs/99999999999999999999",
        f"/jobs/{'9' * 5000}",
        "/workflows/4711",
        "/nowhere",
        "/periodic/show?name=no",
    ],
)
def test_a_thing_that_is_not_there_is_a_page_that_says_so(browser, path):
    answer = browser("reader").get(path)

    assert answer.status_code == 404
    assert 'role="alert"' in answer.text


def test_a_database_that_is_away_is_a_page_that_says_so_without_the_password():
    site = dashboard("postgresql://ada:s3cret@127.0.0.1:1/none", auth=lambda _: Viewer("ada"))

    answer = TestClient(site).get("/")

    assert answer.status_code == 503
    assert "the database is away" in answer.text
    assert "s3cret" not in answer.text


def test_a_schema_that_is_not_migrated_is_a_page_with_the_command(empty_database):
    site = dashboard(Config(database_url=empty_database), auth=lambda _: Viewer("ada"))

    answer = TestClient(site).get("/")
    site.close()

    assert answer.status_code == 503
    assert "fastq migrate" in answer.text


def test_args_are_seen_with_the_permission_alone(database):
    made = furnish(database, "p1ain")
    without = Viewer("rita", READER - {"jobs.args"})
    site = dashboard(Config(database_url=database), auth=lambda _: without)

    for path in (f"/jobs/{made['mails'][0]}", f"/jobs/{made['running']}", "/gates", "/audit"):
        answer = TestClient(site).get(path)
        assert answer.status_code == 200
        assert '"to"' not in answer.text
        assert "account" not in answer.text
    assert TestClient(site).get(f"/jobs/{made['running']}/log").status_code == 403
    site.close()


def test_values_go_through_the_redaction_and_a_redaction_that_raises_shows_nothing(database, events):
    made = furnish(database, "s3cret")
    seen = set()

    def redact(kind, what, value):
        seen.add((kind, what))
        if what == "value":
            raise RuntimeError(value)
        return "[gone]"

    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("ada"), redact=redact)
    client = TestClient(site)
    texts = "".join(client.get(f"/jobs/{made[name]}").text for name in ("running", "dead")) + client.get("/dead").text
    shown = "".join(part for part in texts.split("<") if "[gone]" in part or "s3cret" in part)
    site.close()

    assert {what for _, what in seen} >= {"args", "error", "log", "value", "progress"}
    assert ("crawl", "args") in seen
    assert "[gone]" in shown
    assert '"url"' not in texts
    assert "ValueError: " not in texts
    assert "•••" in texts
    assert [event.fields["what"] for event in events if event.name == "web.unredacted"] == ["value"]


def test_the_name_and_the_colour_of_the_instance_are_on_each_page(database):
    config = Config(database_url=database, instance_name="shop <production>", instance_colour="red")
    site = dashboard(config, auth=lambda _: Viewer("ada"))

    text = TestClient(site).get("/queues").text
    site.close()

    assert "shop &lt;production&gt;" in text
    assert 'class="tint-red"' in text


def test_the_stack_of_a_job_is_for_those_who_may_ask_and_the_page_says_why_there_is_none(browser, database, site):
    made = furnish(database)

    assert 'stack">Stack</a>' in browser("operator").get(f"/jobs/{made['running']}").text
    assert ">Stack</a>" not in browser("reader").get(f"/jobs/{made['running']}").text
    assert ">Stack</a>" not in browser("operator").get(f"/jobs/{made['waiting']}").text
    assert browser("reader").get(f"/jobs/{made['running']}/stack").status_code == 403
    assert "has not answered" in read(browser("operator"), f"/jobs/{made['running']}/stack").text
    assert "does not run: it is waiting" in read(browser("operator"), f"/jobs/{made['waiting']}/stack").text
    assert "no worker process 4711" in read(browser("operator"), "/processes/4711/stack").text


def test_the_hosts_tell_what_their_processes_take(browser, database):
    furnish(database)
    look = session(database)
    look.execute(
        "update fastq.process set vitals = $1::text::jsonb",
        '{"rss": 104857600, "pss": 52428800, "threads": 21, "cpu": 7.5, "load": 0.25, "executors": 16, "busy": 3, "held": 40}',
    )
    look.close()

    text = read(browser("reader"), "/hosts").text

    assert "50 MiB 21 25 % 3 of 16 40" in text
