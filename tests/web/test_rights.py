"""Nobody sees anything whom the application does not know; each route has a permission; changes come from our own pages alone."""

import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.testclient import TestClient

from fastq import Client, Config
from fastq.errors import ConfigError, OptionError
from fastq.web import OPERATOR, PERMISSIONS, READER, Viewer, dashboard
from fastq.web.routing.serving import Page
from fastq.web.routing.view import View
from fastq.web.security.headers import HEADERS
from fastq.web.security.local import Local
from fastq.web.security.permissions import ALWAYS
from fastq.web.site import CONTENTS
from tests.web.conftest import ORIGIN, MailArgs, act, furnish, list_ids

READING = {ALWAYS, *(name for name in PERMISSIONS if name.endswith(".read")), "jobs.args"}


def routes(site):
    """Return each route of a dashboard with an address of it."""
    return [(route, route.path.replace("{id:int}", "1").replace("{name}", "fastq.css")) for route in site.routes]


@pytest.fixture(scope="module")
def unread():
    """Give a dashboard that is asked for nothing of its database."""
    return dashboard("postgresql://nowhere/none", auth=lambda request: WHO.get(request.headers.get("x-who", "")))


WHO = {"reader": Viewer("rita"), "operator": Viewer("otto", OPERATOR)}


def test_each_route_has_a_permission_and_each_permission_a_route(unread):
    needs = {route.path: route.needs for route in unread.routes}

    assert set(needs.values()) == set(PERMISSIONS)
    assert {path for path, permission in needs.items() if permission not in PERMISSIONS} == set()
    assert len(needs) == len(unread.routes) == len(CONTENTS) + 1
    assert {*READING} - {ALWAYS} | {ALWAYS} & READER == READER
    assert {permission for path, permission in needs.items() if not isinstance_page(unread, path)} <= set(PERMISSIONS) - READING


def isinstance_page(site, path):
    return next(route for route in site.routes if route.path == path).methods == {"GET", "HEAD"}


ALL = [(route, path) for route, path in routes(dashboard("postgresql://nowhere/none", auth=lambda _: None))]


@pytest.mark.parametrize("who", ["nobody", "reader", "operator"])
@pytest.mark.parametrize(("route", "path"), ALL, ids=[route.path for route, _ in ALL])
def test_who_may_come_where(route, path, who, database_of_rights):
    client = TestClient(database_of_rights, headers={"x-who": who}, follow_redirects=False)
    may = who == "operator" or (who == "reader" and route.needs in READING)

    got = client.get(path)
    posted = client.post(path, headers=ORIGIN)

    assert (got.status_code != 403) == may, got.text
    if not may:
        assert posted.status_code in (403, 405)
    elif isinstance(route, Page) or path.startswith("/static"):
        assert posted.status_code == 405, "a page that only shows takes no form"
    else:
        assert posted.status_code in (400, 403), "a form without its token does nothing"
    for answer in (got, posted):
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    if who == "nobody":
        assert "<" not in got.text + posted.text, "nobody is shown no page, not even its frame"


@pytest.fixture(scope="module")
def database_of_rights(server, migrated_template):
    """Give a dashboard over one database for all of these tests, which change nothing in it."""
    from tests.helpers import create_database, drop_database

    name = f"{migrated_template}_rights"
    url = create_database(server, name, migrated_template)
    site = dashboard(url, auth=lambda request: WHO.get(request.headers.get("x-who", "")))
    yield site
    site.close()
    drop_database(server, name)


def test_no_route_but_these_is_served(unread):
    client = TestClient(unread, headers={"x-who": "operator"})
    for path in (
        "/static/../site.py",
        "/static/%2e%2e/site.py",
        "/templates/layout.html",
        "//evil.example/",
        "/jobs/1/",
        "/JOBS",
    ):
        assert client.get(path).status_code in (404, 503)
    assert client.get("/jobs%0A").status_code == 404
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.request(method, "/jobs").status_code == 405


def test_a_dashboard_without_an_auth_function_is_an_error():
    with pytest.raises(TypeError, match="auth"):
        dashboard("postgresql://nowhere/none")
    with pytest.raises(OptionError, match="closed without one"):
        dashboard("postgresql://nowhere/none", auth=None)
    with pytest.raises(ConfigError, match="needs a database"):
        dashboard(auth=lambda _: None)


def test_a_page_without_a_known_permission_and_a_viewer_with_an_unknown_one_are_errors():
    with pytest.raises(OptionError, match=r"jobs\.reed"):
        View("/x", "X", "jobs.reed", "x.html", lambda _: {})
    with pytest.raises(OptionError, match=r"did you mean jobs\.retry\?"):
        Viewer("ada", ["jobs.rety"])
    assert Viewer("ada").may == READER | {ALWAYS}
    assert Viewer("ada", "jobs.read").may == {"jobs.read", ALWAYS}


async def _later(answer):
    await asyncio.sleep(0)
    return answer


def _raises(error):
    def auth(request):
        raise error

    return auth


@pytest.mark.parametrize(
    ("auth", "status"),
    [
        (lambda _: None, 403),
        (lambda _: _later(None), 403),
        (lambda _: "ada", 403),
        (lambda _: True, 403),
        (_raises(ValueError("s3cret")), 403),
        (_raises(HTTPException(401, "log in", {"www-authenticate": "Basic"})), 401),
        (lambda _: RedirectResponse("/login"), 307),
        (lambda _: _later(Viewer("ada")), 200),
    ],
)
def test_the_auth_function_lets_in_by_a_viewer_and_by_nothing_else(auth, status):
    client = TestClient(dashboard("postgresql://nowhere/none", auth=auth), follow_redirects=False)

    answer = client.get("/static/fastq.css")

    assert answer.status_code == status
    assert "s3cret" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert TestClient(dashboard("postgresql://nowhere/none", auth=auth), follow_redirects=False).post("/jobs").status_code >= 300


def test_a_websocket_is_refused(unread):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), TestClient(unread).websocket_connect("/"):
        pass


SITE = "http://testserver"
FOREIGN = [
    ({}, "neither header"),
    ({"origin": "https://evil.example"}, "another origin"),
    ({"origin": "null", "sec-fetch-site": "same-origin"}, "a hidden origin"),
    ({"origin": SITE, "sec-fetch-site": "cross-site"}, "another site"),
    ({"origin": SITE, "sec-fetch-site": "same-site"}, "a sister site"),
    ({"origin": SITE, "sec-fetch-site": "none"}, "typed by hand"),
    ({"origin": f"{SITE}:8080"}, "another port"),
    ({"origin": "http://testserver.evil.example"}, "a name that begins as ours"),
    ({"sec-fetch-site": "cross-site"}, "no origin"),
    ({"origin": "null", "host": ""}, "a hidden origin, and no host"),
]


@pytest.mark.parametrize(("headers", "why"), FOREIGN, ids=[why for _, why in FOREIGN])
def test_a_change_that_another_site_asks_for_is_refused(site, database, headers, why, browser, events):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    web = browser("operator")
    token = web.get(f"/jobs/{job}/cancel").text.partition('name="token" value="')[2].partition('"')[0]

    answer = web.post(f"/jobs/{job}/cancel", data={"token": token}, headers=headers)

    assert answer.status_code == 403
    assert list_ids(database, states=["cancelled"]) == []
    assert [event.fields["by"] for event in events if event.name == "web.refused"] == ["otto"]


@pytest.mark.parametrize("form", [{"x": ""}, {"token": ""}, {"token": "guessed"}, {"token": "é"}])
def test_a_form_without_the_token_of_its_browser_does_nothing(browser, database, form):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    web = browser("operator")
    web.get(f"/jobs/{job}/cancel")

    assert web.post(f"/jobs/{job}/cancel", data=form, headers=ORIGIN).status_code == 403
    assert list_ids(database, states=["cancelled"]) == []


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        (b"token=x", "text/plain"),
        (b"token=x", "multipart/form-data; boundary=x"),
        (b"{}", "application/json"),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(60)), "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_that_is_no_small_form_is_refused(browser, body, type_):
    answer = browser("operator").post("/everything/pause", content=body, headers={**ORIGIN, "content-type": type_})

    assert answer.status_code == 400


def test_a_change_from_a_named_origin_passes_where_a_proxy_hides_the_host(database):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))
    site = dashboard(Config(database_url=database), auth=lambda _: WHO["operator"], origins=["https://ops.example.org"])
    web = TestClient(site, follow_redirects=False)
    token = web.get(f"/jobs/{job}/cancel").text.partition('name="token" value="')[2].partition('"')[0]

    headers = {"origin": "https://ops.example.org", "sec-fetch-site": "same-origin"}
    assert web.post(f"/jobs/{job}/cancel", data={"token": token}, headers=headers).status_code == 303
    assert list_ids(database, states=["cancelled"]) == [job]
    site.close()


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nset-cookie: x=1", "jobs"]
)
def test_an_action_goes_back_to_our_own_pages_alone(browser, database, back):
    with Client(database) as client:
        job = int(client.enqueue(MailArgs("ada")))

    answer = act(browser("operator"), f"/jobs/{job}/retry", back=back)

    assert answer.headers["location"] == f"/jobs/{job}"


def test_a_get_changes_nothing(browser, database):
    made = furnish(database)
    before = list_ids(database, limit=1000)
    web = browser("operator")

    for path in ("cancel", "retry", "delete"):
        assert web.get(f"/jobs/{made['mails'][0]}/{path}?token=x&confirm=1").status_code == 200

    assert list_ids(database, limit=1000) == before
    assert list_ids(database, states=["cancelled"]) == []


def local(port=4280, **options):
    auth = Local(port, **options)
    site = dashboard("postgresql://nowhere/none", auth=auth)
    return auth, lambda: TestClient(site, base_url=f"http://127.0.0.1:{port}", follow_redirects=False)


def test_the_local_token_lets_in_one_browser_once():
    auth, browser_of = local()
    mine, other = browser_of(), browser_of()
    address = f"/?token={auth.token}"

    assert mine.get("/static/fastq.css").status_code == 401
    assert mine.get("/?token=guessed").status_code == 401
    welcome = mine.get(address)
    assert welcome.status_code == 200
    cookie = welcome.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert mine.get("/static/fastq.css").status_code == 200
    assert other.get(address).status_code == 401
    assert other.get("/static/fastq.css").status_code == 401
    other.cookies.set("fastq_local_4280", "guessed")
    assert other.get("/static/fastq.css").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4280", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:4280", ""]
)
def test_a_name_of_another_site_for_this_machine_is_refused_with_the_right_cookie_too(host):
    auth, browser_of = local()
    mine = browser_of()
    mine.get(f"/?token={auth.token}")

    assert mine.get("/static/fastq.css", headers={"host": host}).status_code == 421
    assert mine.get("/static/fastq.css", headers={"host": "LOCALHOST:4280"}).status_code in (200, 401)


def test_the_local_viewer_reads_unless_told_otherwise():
    auth, browser_of = local()
    reader = browser_of()
    reader.get(f"/?token={auth.token}")
    assert reader.get("/everything/pause").status_code == 403
    auth, browser_of = local(may=OPERATOR)
    operator = browser_of()
    operator.get(f"/?token={auth.token}")
    assert operator.get("/everything/pause").status_code != 403
