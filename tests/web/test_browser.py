"""The dashboard in a real Chromium: pages and actions with the script and without, live updates, keys, contrast."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest
import uvicorn

from fastq import Client, Config, admin
from fastq.admin import leaders
from fastq.web import OPERATOR, Viewer, dashboard
from tests.db.jobs import session
from tests.helpers import wait_for
from tests.process.conftest import Jobs, supervising
from tests.web.axe import FAULTS
from tests.web.conftest import HOSTILE, MailArgs, furnish
from tests.web.test_pages import PLAIN

CHROMIUM = Path(os.environ.get("FASTQ_TEST_CHROMIUM", "/usr/bin/chromium"))
pytestmark = [
    pytest.mark.further,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}: apt-get install chromium"),
]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium():
    """Give a browser for all of these tests; each has a context of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture
def place(database):
    """Give the address of a dashboard that a real server serves, mounted below another path."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("otto", OPERATOR))
    bound = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Mount("/ops/fastq", site)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/ops/fastq"
    server.should_exit = True
    thread.join()
    bound.close()
    site.close()


@pytest.fixture
def open_page(chromium, place):
    """Give a function that opens a page in a context of its own, and says what went wrong in it."""
    contexts, wrong = [], []

    def opened(path, *, script=True, **options):
        context = chromium.new_context(java_script_enabled=script, viewport=options.pop("viewport", WIDE), **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"{path}: {error}"))
        page.on("console", lambda message: wrong.append(f"{path}: {message.text}") if message.type == "error" else None)
        page.on("dialog", lambda dialog: (wrong.append(f"{path}: dialog {dialog.message}"), dialog.dismiss()))
        page.goto(place + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [one for one in wrong if "404" not in one] == []


def paths(made):
    special = {"/dead/group": None, "/periodic/show": "/periodic/show?name=daily"}
    plain = [special.get(path, path) for path in PLAIN]
    jobs = [f"/jobs/{made['running']}", f"/jobs/{made['dead']}", "/jobs?state=available", "/jobs/all/move?state=available"]
    more = [*jobs, f"/workflows/{made['workflow']}", f"/operations/{made['operation']}", "/queues/pause?name=emails"]
    return [path for path in [*plain, *more] if path]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_each_page_can_be_read_by_everybody(open_page, database, theme, viewport):
    made = furnish(database)
    page = open_page("/", color_scheme=theme, viewport=viewport)
    faults = {}
    for path in paths(made):
        page.goto(re.sub(r"(/ops/fastq).*", r"\1", page.url) + path)
        if found := page.evaluate(FAULTS):
            faults[path] = found

    assert faults == {}


def test_the_menu_of_a_narrow_screen_shows_the_page_that_is_open(open_page, database):
    page = open_page("/doctor", viewport=NARROW)
    menu = page.locator(".side [aria-current]")

    page.locator("#page").wait_for()
    box = menu.bounding_box()

    assert (menu.inner_text(), 0 <= box["x"] <= NARROW["width"] - box["width"]) == ("Doctor", True)


def test_no_text_of_a_job_runs_in_a_browser_and_no_page_breaks_its_policy(open_page, database):
    made = furnish(database, HOSTILE)
    page = open_page("/")
    for path in paths(made):
        page.goto(re.sub(r"(/ops/fastq).*", r"\1", page.url) + path)
        assert page.locator("img, iframe, object, embed").count() == 0
    # the fixture fails the test for a dialog, an error of the script, or a policy that something has broken


def test_a_page_follows_and_keeps_focus_selection_and_opened_parts(open_page, database):
    made = furnish(database)
    page = open_page("/jobs")
    page.locator(".pulse:not(.away)").wait_for()
    field = page.locator("input[name=q]")
    field.fill("half a wo")
    before = page.locator("tbody tr").count()

    with Client(database) as client:
        job = int(client.enqueue(MailArgs("new")))
    page.locator(f'tr[data-key="{job}"]').wait_for()

    assert page.locator("tbody tr").count() == before + 1
    assert field.input_value() == "half a wo"
    assert field.evaluate("node => node === document.activeElement")

    job_page = open_page(f"/jobs/{made['mails'][0]}")
    job_page.locator("details summary").last.click()
    job_page.evaluate("() => getSelection().selectAllChildren(document.querySelector('h1'))")
    look = session(database)
    admin.cancel_jobs(look, [made["mails"][0]])
    look.close()
    job_page.wait_for_timeout(100)
    marked = job_page.evaluate("() => getSelection().toString()")
    assert "mail" in marked
    job_page.evaluate("() => getSelection().removeAllRanges()")
    job_page.locator("h1 .s-cancelled").wait_for()
    assert job_page.locator("details").last.get_attribute("open") is not None


def test_a_page_that_is_held_still_stays_as_it_is(open_page, database):
    page = open_page("/jobs")
    page.locator(".pulse:not(.away)").wait_for()
    page.keyboard.press("p")
    assert page.locator(".pulse").get_attribute("aria-pressed") == "true"
    with Client(database) as client:
        client.enqueue(MailArgs("new"))

    other = open_page("/jobs")
    other.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 0

    page.locator(".pulse").click()
    page.locator("tbody tr").first.wait_for()


def test_rows_with_one_key_all_stay(open_page, database):
    made = furnish(database)
    look = session(database)
    gates = '[["order-hold","stream","a",1,1]]'
    look.execute(
        "insert into fastq.gate_permit (job, queue, gates) values ($1, 'default', $2), (987654, 'default', $2)",
        made["dead"],
        gates,
    )
    page = open_page("/gates")
    rows = page.locator("tr[data-key='stream \"a\"']")
    rows.nth(1).wait_for()

    for number in ("4", "5"):
        look.run("gate_set", "mail-api", int(number), None, None, None)
        page.locator('tr[data-key="mail-api"] td.n', has_text=number).first.wait_for()
        assert rows.count() == 2
    look.close()


def test_without_streams_a_page_is_asked_for_again(chromium, place, database):
    context = chromium.new_context()
    context.add_init_script("delete window.EventSource")
    page = context.new_page()
    page.goto(f"{place}/jobs")
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("new")))

    page.locator(f'tr[data-key="{job}"]').wait_for()
    context.close()


def test_a_hidden_tab_has_no_stream(open_page, database, place):
    page = open_page("/jobs")
    page.locator(".pulse:not(.away)").wait_for()
    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    with Client(database) as client:
        client.enqueue(MailArgs("new"))
    other = open_page("/jobs")
    other.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 0

    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: false, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.locator("tbody tr").first.wait_for()


def test_by_the_keyboard_one_comes_to_the_content_the_fields_and_the_actions(open_page, database):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    page = open_page("/jobs")

    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    assert page.evaluate("() => document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "content"
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.name") == "id"
    page.keyboard.type(str(job))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job}")
    page.get_by_role("link", name="Cancel").focus()
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Cancel it").focus()
    page.keyboard.press("Enter")
    page.locator(".told").wait_for()
    assert page.locator(".told").inner_text() == f"job {job} is cancelled"


def test_the_menu_is_in_the_order_of_the_page(open_page):
    page = open_page("/")
    tops = page.locator(".side nav a").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")

    assert tops == sorted(tops)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_each_action_is_done_with_a_script_and_without(open_page, database, script):
    made = furnish(database)
    look = session(database)
    job = made["mails"][0]
    page = open_page(f"/jobs/{job}", script=script)

    def click(link, button, **fields):
        page.get_by_role("link", name=link, exact=True).first.click()
        for name, value in fields.items():
            field = page.locator(f"[name={name}]")
            (field.select_option if field.evaluate("node => node.nodeName") == "SELECT" else field.fill)(value)
        page.get_by_role("button", name=button).click()
        page.locator(".told").wait_for()
        return page.locator(".told").inner_text()

    def go(path):
        page.goto(re.sub(r"(/ops/fastq).*", r"\1", page.url) + path)

    assert click("Cancel", "Cancel it") == f"job {job} is cancelled"
    assert click("Run now", "Run it now") == f"job {job} is available now"
    assert click("Delete", "Delete it") == f"job {job} is deleted"
    go("/queues")
    row = page.locator('tr[data-key="emails"]')
    row.get_by_role("link", name="Pause").click()
    page.locator("[name=until]").select_option("3600")
    page.locator("[name=reason]").fill("moving")
    page.get_by_role("button", name="Pause it").click()
    assert page.locator(".told").inner_text() == "queue 'emails' is paused"
    assert "moving" in page.locator("#page").inner_text()
    page.locator('tr[data-key="emails"]').get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume it").click()
    assert page.locator(".told").inner_text() == "queue 'emails' goes on"
    go("/gates")
    page.locator('tr[data-key="mail-api"]').get_by_role("link", name="Set").click()
    page.locator("[name=number]").fill("7")
    page.get_by_role("button", name="Set it").click()
    assert page.locator(".told").inner_text() == "gate 'mail-api' has the number 7, it had 3"
    go("/periodic")
    assert "of periodic job 'daily' is enqueued" in click("Run now", "Run it now")
    go(f"/workflows/{made['workflow']}")
    assert "cancelled, or asked to end" in click("Cancel", "Cancel it")
    go("/dead")
    page.locator("td.error a").first.click()
    assert click("Replay", "Replay them", limit="10") == "1 job replayed"
    go("/jobs?q=kind:mail&state=available")
    assert re.fullmatch(r"operation \d+ is made: move \d+ jobs?", click("Move", "Move all of them", queue="slow"))
    assert page.locator("h1").inner_text().startswith("Operation")
    assert click("Cancel", "Cancel it").endswith("is asked to end")
    go("/audit")
    assert "otto" in page.locator("#page").inner_text()
    go("/leaders")
    assert click("Ask to resign", "Ask it to resign") == "the holder of 'schema' was asked to resign"
    wait_for(lambda: [row.resigning for row in leaders.list_leases(look) if row.name == "schema"] == [True])
    assert admin.show_job(look, job) is None
    look.close()


def test_a_graph_leads_to_its_jobs(open_page, database):
    made = furnish(database)
    page = open_page(f"/workflows/{made['workflow']}")

    page.locator("svg a").first.click()

    assert re.search(r"/jobs/\d+$", page.url)
    assert page.locator("h1").inner_text().startswith("mail")


def write_log(look, job, first, count):
    """Write lines of a job's log, as its worker process does: a sheet of them."""
    text = "\n".join(f"2026-11-19T10:00:00+00:00\tINFO\tapp\tline {number}" for number in range(first, first + count))
    look.execute(
        "insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text) "
        "values ($1, 1, coalesce((select max(start_at + size) from fastq.job_log where job = $1 and claim = 1), 0), 1, $2, $3, "
        "false, 'report', $4)",
        job,
        len(text),
        count,
        text,
    )


def at_end(page):
    return page.locator(".log").evaluate("(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 8")


def test_the_log_of_a_running_job_grows_while_its_page_is_open_and_stays_where_somebody_reads(open_page, database):
    made = furnish(database)
    look = session(database)
    look.execute("delete from fastq.job_log")
    write_log(look, made["running"], 0, 50)
    page = open_page(f"/jobs/{made['running']}")
    page.locator(".pulse:not(.away)").wait_for()
    page.evaluate("() => { window.sameDocument = true; document.querySelector('.log li:last-child').marked = true; }")
    wait_for(lambda: at_end(page), what="a log that grows to be shown from its end on")

    write_log(look, made["running"], 50, 5)
    page.get_by_text("line 54", exact=True).wait_for()
    wait_for(lambda: at_end(page), what="the new end")
    assert page.evaluate("() => window.sameDocument"), "the page was not loaded again"
    assert page.evaluate("() => document.querySelector('[data-key=line-50]').marked"), "a line that was there stays as it is"

    page.locator(".log").evaluate("(log) => { log.scrollTop = 200; }")
    write_log(look, made["running"], 55, 3)
    page.get_by_text("line 57", exact=True).wait_for(state="attached")
    assert page.locator(".log").evaluate("(log) => log.scrollTop") == 200

    write_log(look, made["running"], 58, 20)  # the page has the last sixty: the first ones go
    page.get_by_text("line 77", exact=True).wait_for(state="attached")
    assert page.locator(".log li").count() == 60
    assert page.evaluate("() => document.querySelector('[data-key=line-50]').marked")
    look.close()


def test_without_a_script_the_log_is_as_new_as_the_page(open_page, database):
    made = furnish(database)
    look = session(database)
    page = open_page(f"/jobs/{made['running']}", script=False)
    write_log(look, made["running"], 0, 3)

    wait_for(lambda: page.reload() and page.get_by_text("line 2", exact=True).is_visible(), what="the line, in a page of now")
    look.close()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_stack_of_a_running_job_and_of_its_process_are_a_click_away(open_page, database, tmp_path, script):
    jobs = Jobs(database, tmp_path)
    with supervising(jobs, tmp_path) as supervise:
        supervise("tests.process.placed:registry", beat_interval="0.2")
        job = jobs.add("placed", secret="hunter2")
        jobs.wait_until_told("start", job)
        page = open_page(f"/jobs/{job}", script=script)

        page.get_by_role("link", name="Stack", exact=True).click()
        page.locator("pre.stack").wait_for()
        assert "in placed_call" in page.locator("pre.stack").inner_text()
        assert "hunter2" not in page.locator("pre.stack").inner_text()
        page.get_by_role("link", name="Look again").click()
        assert "in placed_call" in page.locator("pre.stack").inner_text()
        assert page.evaluate(FAULTS) == [] if script else True

        page.goto(re.sub(r"(/ops/fastq).*", r"\1", page.url) + "/hosts")
        wait_for(lambda: page.reload() and "1 of 4" in page.locator("tbody").first.inner_text())
        assert "MiB" in page.locator("tbody").first.inner_text()
        page.get_by_role("link", name="Stacks", exact=True).first.click()
        assert f"job {job} placed" in page.locator("pre.stack").inner_text()
    jobs.connection.close()
