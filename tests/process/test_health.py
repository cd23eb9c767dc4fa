"""A supervisor that is asked how it is: over HTTP, by `fastq health`, and by a service manager."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import freeze, wait_for
from tests.proxy import Proxy

pytestmark = [pytest.mark.process, pytest.mark.further]

AT = re.compile(r"health\.listens address=(\S+)")


def address_of(supervisor):
    supervisor.wait_until_it_says("health.listens")
    return AT.search(supervisor.said)[1]


def asked(address, path):
    """Return the status and the body."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def health(address, *options):
    """Run the command."""
    environment = {**os.environ, "FASTQ_HEALTH": address}
    return subprocess.run(
        [sys.executable, "-m", "fastq", "health", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_one_that_works_is_ready_and_one_that_stops_is_alive(supervise, jobs):
    supervisor = supervise(health="127.0.0.1:0")
    address = address_of(supervisor)
    wait_for(lambda: asked(address, "/readyz")[0] == 200, 20, "a host that is ready")
    yes = health(address)
    job = jobs.add("patient", seconds=30, later=0.0)
    jobs.wait_until_told("start", job)
    executing = wait_for(lambda: 'fastq_executing{queue="default"} 1' in asked(address, "/metrics")[1])
    supervisor.send(signal.SIGTERM)
    wait_for(lambda: asked(address, "/readyz")[0] == 503, 10, "a host that is not ready")
    no, alive = health(address, "--json"), health(address, "--alive")
    supervisor.send(signal.SIGTERM)  # at once
    supervisor.wait()
    nobody = health(address)

    assert executing
    assert (yes.returncode, yes.stdout) == (0, "alive, ready\n")
    assert no.returncode == 1
    assert json.loads(no.stdout)["alive"] is True
    assert json.loads(no.stdout)["reasons"] == ["the host stops"]
    assert (alive.returncode, alive.stdout) == (0, "alive\n")
    assert nobody.returncode == 3
    assert f"nobody answers at {address}" in nobody.stderr


def test_one_whose_database_is_away_is_alive_and_says_why_it_is_not_ready(supervise, jobs):
    with Proxy(jobs.url) as wire:
        supervisor = supervise(health="127.0.0.1:0", database_url=wire.url)
        address = address_of(supervisor)
        wait_for(lambda: asked(address, "/readyz")[0] == 200, 20, "a host that is ready")
        wire.black_hole()
        wait_for(lambda: asked(address, "/readyz")[0] == 503, 20, "a host that is not ready")
        reasons = json.loads(asked(address, "/readyz")[1])["reasons"]
        alive = asked(address, "/healthz")[0]
        wire.restore()
        wait_for(lambda: asked(address, "/readyz")[0] == 200, 30, "a host that is ready again")

    assert re.fullmatch(r"the database has not answered for \d+ s", reasons[0])
    assert alive == 200


def test_the_host_that_leads_alone_tells_of_the_whole_schema(supervise, jobs):
    leading, other = supervise(health="127.0.0.1:0"), supervise(health="127.0.0.1:0", lead="off", queues="emails=1")
    wait_for(
        lambda: 'fastq_queue_processes{queue="emails"} 1' in _schema(asked(address_of(leading), "/metrics")[1]),
        40,
        "a count of both",
    )

    assert _schema(asked(address_of(other), "/metrics")[1]) == []


def _schema(page):
    return [line for line in page.splitlines() if line.startswith(("fastq_jobs{", "fastq_queue_processes{"))]


def test_counts_go_on_over_the_death_of_a_process(supervise, jobs):
    supervisor = supervise(health="127.0.0.1:0")
    address = address_of(supervisor)
    jobs.add_all("nap", [{"seconds": 0.0}] * 20)
    jobs.wait_until_none_is_left()
    wait_for(lambda: "fastq_outcomes_total 20\n" in asked(address, "/metrics")[1], what="the outcomes")
    os.kill(supervisor.workers[0], signal.SIGKILL)
    supervisor.wait_until_it_says("process.died")
    jobs.add_all("nap", [{"seconds": 0.0}] * 5)
    jobs.wait_until_none_is_left()

    wait_for(lambda: "fastq_outcomes_total 25\n" in asked(address, "/metrics")[1], what="the outcomes of both")
    assert 'fastq_events_total{event="process.died"} 1' in asked(address, "/metrics")[1]


def test_an_address_that_is_taken_ends_it_at_its_start(supervise):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        supervisor = supervise(ready=False, health=address)
        code, _ = supervisor.wait()

    assert code == 2
    assert f"FASTQ_HEALTH: cannot listen on {address} (Address already in use)" in supervisor.said


def test_without_the_setting_it_opens_no_port_and_the_command_says_what_to_set(supervise):
    supervisor = supervise()
    told = health("")

    assert "health.listens" not in supervisor.said
    assert told.returncode == 2
    assert "set FASTQ_HEALTH=127.0.0.1:9464 for both, or give --health" in told.stderr


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"alive":true,"ready":true}',
        '{"alive":"yes","ready":"yes","reasons":[]}',
        '{"alive":true,"ready":true,"reasons":null}',
    ],
)
def test_an_answer_in_json_of_somebody_else_is_none_of_a_supervisor(body):
    def answer(listening):
        with suppress(OSError), listening.accept()[0] as asked:
            asked.recv(1_000)
            asked.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        other = threading.Thread(target=answer, args=(listening,))
        other.start()
        told = health(f"127.0.0.1:{listening.getsockname()[1]}")
        other.join()

    assert told.returncode == 3, told.stderr
    assert "this is no supervisor of fastq" in told.stderr


def test_a_port_of_somebody_else_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = health(f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.3")

    assert told.returncode == 3
    assert "nobody answers at" in told.stderr


def test_a_service_manager_hears_of_the_start_the_work_and_the_stop(supervise, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        supervisor = supervise()
        heard = []

        def until(text):
            while text not in heard:
                heard.append(manager.recv(4_096).decode())
            return text

        until("READY=1")
        until("STATUS=works: 1 of 1 processes, 0 jobs executing")
        heard.clear()
        until("WATCHDOG=1")
        children = [pid for pid in supervisor.descendants if b"NOTIFY_SOCKET" in environment_of(pid)]
        supervisor.send(signal.SIGTERM)
        until("STOPPING=1")
        supervisor.wait()

    assert children == []


def environment_of(pid):
    """Return the environment that a process was started with."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_supervisor_that_hangs_gives_the_manager_no_sign(supervise, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        supervisor = supervise()
        freeze(supervisor.pid)
        manager.setblocking(False)
        drain(manager)
        manager.setblocking(True)
        manager.settimeout(1.5)
        with pytest.raises(TimeoutError):
            manager.recv(4_096)
        os.kill(supervisor.pid, signal.SIGCONT)
        manager.settimeout(20)
        assert manager.recv(4_096)


def drain(manager):
    """Take what has come."""
    try:
        while manager.recv(4_096):
            pass
    except BlockingIOError:
        return
