"""Each action asks first, does what it says, tells it on the next page, and is an event with the name of the viewer."""

from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from fastq import Client, Config, admin
from fastq.admin import dead, leaders, periodic
from fastq.admin.bulk import at_once
from fastq.jobs.job import State
from fastq.web import OPERATOR, Viewer, dashboard
from tests.db.jobs import session
from tests.web.conftest import ORIGIN, MailArgs, SyncArgs, act, furnish


@pytest.fixture
def look(database):
    """Give a session to see what an action has done."""
    opened = session(database)
    yield opened
    opened.close()


def told(answer):
    """Return the message for the next page."""
    assert answer.status_code == 303, answer.text
    return unquote(answer.cookies["fastq_told"])


def test_a_job_is_cancelled_retried_and_deleted(browser, database, look, events):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    web = browser()

    assert told(act(web, f"/jobs/{job}/cancel")) == f"job {job} is cancelled"
    assert admin.show_job(look, job).state is State.CANCELLED
    page = web.get(f"/jobs/{job}")
    assert f"job {job} is cancelled" in page.text
    assert "told" not in web.get(f"/jobs/{job}").text.partition("</nav>")[2], "the message is shown once"
    assert told(act(web, f"/jobs/{job}/retry")) == f"job {job} is available now"
    assert admin.show_job(look, job).state is State.AVAILABLE
    deleted = act(web, f"/jobs/{job}/delete")
    assert (told(deleted), deleted.headers["location"]) == (f"job {job} is deleted", "/jobs")
    assert admin.show_job(look, job) is None
    done = [event.fields for event in events if event.name == "web.acted"]
    assert [(one["by"], one["action"], one["subject"]) for one in done] == [
        ("otto", f"jobs.{verb}", f"job {job}") for verb in ("cancel", "retry", "delete")
    ]


def test_a_change_that_is_refused_is_told(browser, database, look):
    with Client(database) as client:
        one = int(client.enqueue(SyncArgs(1)))
        client.cancel(one)
        other = int(client.enqueue(SyncArgs(1)))

    assert told(act(browser(), f"/jobs/{one}/retry")) == f"job {one} is unique, and job {other} holds its key"
    assert told(act(browser(), f"/jobs/{one}/cancel")) == f"job {one} had ended already"


def test_a_page_is_fresh_after_an_action(browser, database):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    web = browser()
    assert "s-available" in web.get(f"/jobs/{job}").text

    act(web, f"/jobs/{job}/cancel")

    assert "was cancelled at" in web.get(f"/jobs/{job}").text


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/queues/{}?name=emails", "queue 'emails'"),
        ("/kinds/{}?name=send:mail", "kind 'send:mail'"),
        ("/gates/{}?name=api/mail%3A2", "gate 'api/mail:2'"),
        ("/gates/{}?name=mail-api", "gate 'mail-api'"),
        ("/gates/{}?name=mail-api&key=42", "gate 'mail-api' for key 42"),
        ("/everything/{}", "everything"),
    ],
)
def test_queues_kinds_gates_keys_and_everything_are_paused_and_resumed(browser, look, path, subject):
    web = browser()

    asked = act(web, path.format("pause"), until="900", reason="a <b>reason</b>")
    assert told(asked) == f"{subject} is paused"
    [pause] = admin.list_pauses(look)
    assert (pause.subject, pause.reason) == (subject, "a <b>reason</b>")
    assert pause.paused_until is not None
    assert "a &lt;b&gt;reason&lt;/b&gt;" in web.get("/queues").text
    assert told(act(web, path.format("resume"))) == f"{subject} goes on"
    assert admin.list_pauses(look) == []
    assert told(act(web, path.format("resume"))) == f"{subject} was not paused"


def test_a_form_with_a_value_that_is_not_allowed_comes_back_with_the_rule(browser, look):
    web = browser()

    answer = act(web, "/queues/pause?name=emails", until="-1", reason="kept")

    assert answer.status_code == 400
    assert "until -1.0: expected" in answer.text
    assert 'value="kept"' in answer.text
    assert admin.list_pauses(look) == []
    assert act(web, "/gates/set?name=mail-api", number="many").status_code == 400
    assert act(web, "/gates/set?name=mail-api", number="-3").status_code == 400


def test_a_gate_is_set_and_removed(browser, look):
    web = browser()

    assert told(act(web, "/gates/set?name=mail-api", number="5")) == "gate 'mail-api' has the number 5"
    assert told(act(web, "/gates/set?name=mail-api", number="0")) == "gate 'mail-api' has the number 0, it had 5"
    assert "gate &#39;mail-api&#39; is closed" in web.get("/").text
    assert told(act(web, "/gates/remove?name=mail-api")) == "gate 'mail-api' had 0; that of the code holds"
    assert told(act(web, "/gates/remove?name=mail-api")) == "gate 'mail-api' had no number"


def test_a_key_that_a_discarded_job_holds_is_released(browser, database, look):
    made = furnish(database)
    gates = '[["order-hold","stream","a \\"b\\" <c>",1,1]]'
    look.execute("insert into fastq.gate_permit (job, queue, gates) values ($1, 'default', $2)", made["dead"], gates)
    web = browser()
    page = web.get("/gates").text
    address = page.partition('href="/gates/release?')[2].partition('"')[0].replace("&amp;", "&")

    answer = told(act(web, f"/gates/release?{address}"))

    assert answer.endswith("of gate 'stream' is released")
    assert admin.list_held(look) == []
    assert web.get(f"/gates/release?{address}").status_code == 404


def test_a_unique_key_is_given_up(browser, database, look):
    with Client(database) as client:
        client.enqueue(SyncArgs(1))
    [key] = admin.list_keys(look)

    assert told(act(browser(), f"/unique/release?key={key.key}")).endswith(f"of job {key.job_id} is given up")
    assert admin.list_keys(look) == []


def test_a_periodic_job_is_run_paused_and_resumed(browser, database, look):
    furnish(database)
    web = browser()

    ran = act(web, "/periodic/run?name=daily")
    assert "of periodic job 'daily' is enqueued" in told(ran)
    assert ran.headers["location"].startswith("/jobs/")
    assert told(act(web, "/periodic/pause?name=daily")) == "periodic job 'daily' is paused: its ticks are dropped"
    assert periodic.find_periodic(look, "daily").paused_at is not None
    assert told(act(web, "/periodic/resume?name=daily")) == "periodic job 'daily' goes on"
    assert web.get("/periodic/run?name=no").status_code == 404


def test_a_workflow_is_cancelled_and_retried(browser, database, look):
    made = furnish(database)
    web, path = browser(), f"/workflows/{made['workflow']}"

    assert "cancelled, or asked to end" in told(act(web, f"{path}/cancel"))
    assert "to run once more" in told(act(web, f"{path}/retry", what="failed"))
    assert act(web, f"{path}/retry", what="odd").status_code in (303, 400)


def test_a_group_of_discarded_jobs_is_replayed_and_deleted(browser, database, look):
    furnish(database)
    [group] = dead.list_dead(look).groups
    web = browser()

    assert act(web, f"/dead/replay?group={group.id}", limit="0").status_code == 400
    assert act(web, f"/dead/replay?group={group.id}", limit="9999999").status_code == 400
    assert told(act(web, f"/dead/replay?group={group.id}", limit="10", rate="5")) == "1 job replayed"
    assert told(act(web, f"/dead/replay?group={group.id}", limit="10")) == "0 jobs replayed, 1 were left out"
    deleted = act(web, f"/dead/delete?group={group.id}", limit="10")
    assert (told(deleted), deleted.headers["location"]) == ("1 discarded job deleted", "/dead")
    assert dead.list_dead(look).groups == []


def test_the_holder_of_a_lease_is_asked_to_resign_in_its_term_alone(browser, database, look):
    furnish(database)
    [lease] = [row for row in leaders.list_leases(look) if row.name == "schema"]
    web = browser()

    late = told(act(web, f"/leaders/resign?name=schema&term={lease.term - 1}"))
    assert late == "the holder of 'schema' had changed, so nobody was asked"
    assert told(act(web, f"/leaders/resign?name=schema&term={lease.term}")) == "the holder of 'schema' was asked to resign"
    assert web.get("/leaders/resign?name=no").status_code == 404


@pytest.mark.parametrize(
    ("verb", "count", "fields"), [("retry", 3, {}), ("cancel", 3, {}), ("delete", 3, {}), ("move", 3, {"queue": "slow"})]
)
def test_all_jobs_of_a_filter_are_changed_by_an_operation_that_is_counted_first(browser, database, look, verb, count, fields):
    with Client(database) as client:
        client.enqueue_many([MailArgs(f"{n}") for n in range(3)], delay=600)
        client.enqueue(SyncArgs(7))
    web = browser()
    path = f"/jobs/all/{verb}?q=kind:mail&state=scheduled"

    asked = web.get(path).text
    made = act(web, path, **fields)

    assert f"{count} jobs" in asked
    assert "kind:mail" in asked
    [row] = at_once.list_operations(look)
    assert (row.verb, row.expected, row.by, row.change) == (verb, count, "otto", fields)
    assert row.filter == "state:scheduled kind:mail"
    assert told(made) == f"operation {row.id} is made: {verb} {count} jobs"
    assert made.headers["location"] == f"/operations/{row.id}"
    assert [(record.by, record.operation) for record in at_once.list_audit(look)] == [("otto", row.id)]
    assert "kind:mail" in web.get("/operations").text


def test_an_operation_is_made_of_a_filter_alone_and_with_a_queue_that_can_be_one(browser, database, look):
    with Client(database) as client:
        client.enqueue(MailArgs("ada"))
    web = browser()

    assert web.get("/jobs/all/delete").status_code == 400
    assert web.get("/jobs/all/delete?q=knid:mail").status_code == 400
    assert "No job that this could change fits" in web.get("/jobs/all/cancel?q=kind:other").text
    assert act(web, "/jobs/all/move?q=kind:mail", queue="No Queue").status_code == 400
    assert at_once.list_operations(look) == []


def test_words_about_args_make_an_operation_for_those_who_may_see_args(browser, database, look):
    with Client(database) as client:
        client.enqueue_many([MailArgs("ada"), MailArgs("bob")])
    may = OPERATOR - {"jobs.args"}
    blind = dashboard(Config(database_url=database), auth=lambda _: Viewer("bea", may))

    try:
        client = TestClient(blind, follow_redirects=False)
        assert client.get("/jobs/by-args/all/delete?q=args.to:ada").status_code == 403
        assert client.get("/jobs/all/delete?q=args.to:ada").status_code == 400
    finally:
        blind.close()
    assert "Delete 1 job for good?" in browser().get("/jobs/by-args/all/delete?q=args.to:ada").text
    assert told(act(browser(), "/jobs/by-args/all/delete?q=args.to:ada")) == "operation 1 is made: delete 1 job"


def test_an_operation_is_cancelled(browser, database, look):
    with Client(database) as client:
        client.enqueue(MailArgs("ada"))
    row = at_once.make_operation(look, "cancel", "kind:mail")
    web = browser()

    assert "/operations/1/cancel" in web.get(f"/operations/{row.id}").text
    assert told(act(web, f"/operations/{row.id}/cancel")) == f"operation {row.id} is asked to end"
    assert at_once.list_operations(look)[0].cancel_requested
    look.execute("update fastq.operation set state = 'cancelled', ended_at = now()")
    assert "It has ended already: cancelled." in web.get(f"/operations/{row.id}/cancel").text
    assert told(act_with_token(web, f"/operations/{row.id}/cancel")) == f"operation {row.id} had ended already"


def act_with_token(client, path):
    """Send the form of a page that shows none any more, as a browser does that has loaded it before."""
    token = client.get("/everything/pause").text.partition('name="token" value="')[2].partition('"')[0]
    return client.post(path, data={"token": token, "back": ""}, headers=ORIGIN)


def test_a_change_of_a_single_job_is_in_the_audit_with_the_name_of_the_viewer(database, look):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    site = dashboard(Config(database_url=database), auth=lambda _: Viewer("ada\n" + "x" * 300, OPERATOR))

    act(TestClient(site, follow_redirects=False), f"/jobs/{job}/cancel")
    site.close()

    [record] = at_once.list_audit(look)
    assert (record.verb, record.job, record.by) == ("cancel", job, ("ada?" + "x" * 300)[:200])


def test_after_an_action_that_has_removed_its_page_comes_the_page_that_it_names(browser, database):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))

    assert act(browser(), f"/jobs/{job}/delete", back=f"/jobs/{job}").headers["location"] == "/jobs"


def test_a_reader_is_offered_no_action(browser, database):
    made = furnish(database)
    reader, operator = browser("reader"), browser("operator")

    for path in (
        "/jobs?state=available",
        "/operations",
        f"/operations/{made['operation']}",
        "/",
        "/queues",
        "/gates",
        "/periodic",
        "/leaders",
        f"/jobs/{made['mails'][0]}",
        f"/workflows/{made['workflow']}",
    ):
        for action in ("/pause", "/resume", "/cancel", "/retry", "/delete", "/set?", "/release", "/run?", "/resign"):
            assert f"{action}" not in "".join(part.partition('"')[0] for part in reader.get(path).text.split('href="')[1:]), (
                f"{path}: {action}"
            )
    assert f"/jobs/{made['mails'][0]}/cancel" in operator.get(f"/jobs/{made['mails'][0]}").text
    assert "/jobs/all/cancel" in operator.get("/jobs?state=available").text
    assert "/jobs/all/" not in operator.get("/jobs").text, "an operation needs a filter"


def test_an_action_by_a_role_that_may_not_says_so(browser, database, look, server):
    look.execute("alter table fastq.queue rename to queue_away")
    answer = browser().get("/queues")
    look.execute("alter table fastq.queue_away rename to queue")

    assert answer.status_code == 503
    assert "the database refused" in answer.text


def test_a_term_that_no_lease_can_have_is_a_mistake_in_the_address_and_no_failure_of_the_database(browser, database):
    furnish(database)

    answer = act(browser(), f"/leaders/resign?name=schema&term={'9' * 25}")

    assert answer.status_code == 400
    assert "term: expected a number from 1 to" in answer.text
