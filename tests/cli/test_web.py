"""`fastq web` as a user has it: closed until told who may see it, on the loopback alone, and gone at a signal."""

import re
import signal
import subprocess
import urllib.request
from urllib.error import HTTPError

import pytest

from tests.cli.conftest import command, environment

AUTH = """
from fastq.web import Viewer

def auth(request):
    return Viewer("ada") if request.headers.get("x-ada") == "yes" else None

odd = None
"""


@pytest.fixture
def web(folder, database):
    """Give a function that starts `fastq web` and gives its process and its first line."""
    started = []

    def start(*words):
        process = subprocess.Popen(
            command("web", "--port", 0, *words),
            cwd=folder,
            env=environment(FASTQ_DATABASE_URL=database),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def fetch(url, **headers):
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_without_a_word_who_may_see_it_nothing_is_served(fastq, database):
    done = fastq("web", FASTQ_DATABASE_URL=database)
    assert done.returncode == 2
    assert "one of the arguments --local --auth is required" in done.stderr
    done = fastq("web", "--auth", "app:registry", "--operate", FASTQ_DATABASE_URL=database)
    assert (done.returncode, "--operate: expected with --local" in done.stderr) == (2, True)
    done = fastq("web", "--local", "--root-path", "/x", FASTQ_DATABASE_URL=database)
    assert (done.returncode, "--root-path /x: expected" in done.stderr) == (2, True)
    done = fastq("web", "--auth", "app:nothing", FASTQ_DATABASE_URL=database)
    assert (done.returncode, "has no 'nothing'" in done.stderr) == (2, True)


def test_a_local_one_lets_one_browser_in_and_ends_in_order_at_a_signal(web):
    process, address = web("--local", "--instance-name", "night shift")
    place = re.match(r"http://127\.0\.0\.1:\d+/", address)[0]

    assert fetch(place)[0] == 401
    status, headers, _ = fetch(address)
    cookie = headers["set-cookie"].partition(";")[0]
    assert status == 200
    assert fetch(address)[0] == 401
    page = fetch(place, cookie=cookie)
    assert page[0] == 200
    assert "night shift" in page[2]
    assert fetch(f"{place}everything/pause", cookie=cookie)[0] == 403, "it reads, unless told to --operate"
    assert fetch(place, cookie=cookie, host="evil.example")[0] == 421
    assert "server" not in page[1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_a_local_one_with_operate_may_change_things(web):
    process, address = web("--local", "--operate")
    cookie = fetch(address)[1]["set-cookie"].partition(";")[0]

    status, _, page = fetch(f"{address.partition('?')[0]}everything/pause", cookie=cookie)

    assert status == 200
    assert "<button" in page
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


def test_with_a_function_it_lets_in_those_whom_that_knows(web, folder):
    (folder / "rights.py").write_text(AUTH)
    _, place = web("--auth", "rights:auth")

    assert fetch(place)[0] == 403
    status, _, page = fetch(place, x_ada="yes")
    assert status == 200
    assert ">ada<" in page


def test_behind_a_proxy_that_shows_it_below_a_path_all_links_have_that_path(web, folder):
    (folder / "rights.py").write_text(AUTH)
    _, place = web("--auth", "rights:auth", "--root-path", "/ops/fastq/")

    page = fetch(place, x_ada="yes")[2]
    links = re.findall(r'(?:href|src)="([^"#]+)"', page)

    assert len(links) > 10
    assert [link for link in links if not link.startswith("/ops/fastq/")] == []


def test_behind_a_proxy_that_hides_the_host_a_change_passes_from_the_origin_that_was_named(web, fastq, folder, database):
    (folder / "rights.py").write_text(
        AUTH.replace('Viewer("ada")', 'Viewer("ada", OPERATOR)').replace("Viewer\n", "OPERATOR, Viewer\n")
    )
    _, place = web("--auth", "rights:auth", "--origin", "https://ops.example.org")
    browser = {"x_ada": "yes", "sec_fetch_site": "same-origin", "origin": "https://ops.example.org"}

    _, headers, page = fetch(f"{place}queues/pause?name=mails", x_ada="yes")
    token = re.search(r'name="token" value="([^"]+)"', page)[1]
    asked = urllib.request.Request(
        f"{place}queues/pause?name=mails",
        data=f"token={token}".encode(),
        headers={name.replace("_", "-"): value for name, value in browser.items()}
        | {"cookie": headers["set-cookie"].partition(";")[0]},
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert "queue &#39;mails&#39;" in answer.read().decode()
    done = fastq("web", "--auth", "rights:auth", "--origin", "https://ops.example.org/x", FASTQ_DATABASE_URL=database)
    assert (done.returncode, "--origin https://ops.example.org/x: expected" in done.stderr) == (2, True)
    done = fastq("web", "--local", "--origin", "https://ops.example.org", FASTQ_DATABASE_URL=database)
    assert (done.returncode, "with --auth" in done.stderr) == (2, True)


def test_a_port_that_is_taken_is_told(web, fastq, database):
    _, address = web("--local")
    port = re.search(r":(\d+)/", address)[1]

    done = fastq("web", "--local", "--port", port, FASTQ_DATABASE_URL=database)

    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
