"""The port for probes: it answers from memory, and a connection has one request and five seconds at most, whatever it sends."""

import json
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from fastq.admin.queues import QueueRow
from fastq.board import board
from fastq.board.board import Board
from fastq.config import Config
from fastq.errors import ConfigError
from fastq.events import emit
from fastq.host.vitals import port as module
from fastq.host.vitals.notify import Manager
from fastq.host.vitals.port import Port
from fastq.host.vitals.vitals import STALE, Vitals
from fastq.lead.census import Counted
from fastq.lead.maintainer import Maintainer
from tests.helpers import wait_for

BEATEN = {"at": None}


@pytest.fixture
def host():
    """Give the signs of a host with two places, whose parts the test plays."""
    config = Config(procs=2, queues={"default": 3, "emails": 1})
    shared = Board.make(list(config.concurrency.values()), 4, 16)
    played = {"beaten": time.monotonic(), "working": 2, "leads": ["leader:default"]}
    maintainer = Maintainer(config, "")
    maintainer.leads = lambda: played["leads"]
    made = Vitals(config, shared, lambda: played["beaten"], lambda: played["working"], maintainer, Manager())
    made.played, made.shared, made.counts = played, shared, maintainer.counts
    made.start()
    yield made
    made.finish(time.monotonic())


@pytest.fixture
def port(host):
    """Give a port of the host's, at work."""
    made = Port("127.0.0.1:0", host)
    made.start()
    yield made
    made.finish(time.monotonic() + 5)
    wait_for(lambda: made.ended, what="its end")


def looked(host):
    """Have the host look at itself now."""
    host.signs = host.signs._replace(at=time.monotonic() - 1)
    host.tick()


def connected(port):
    host, number = port.address.rsplit(":", 1)
    return socket.create_connection((host, int(number)), 20)


def said(port, request):
    """Send bytes and return the whole answer."""
    with connected(port) as asking:
        asking.sendall(request)
        answer = b""
        while more := asking.recv(65_536):
            answer += more
    return answer


def asked(port, path, method="GET"):
    """Return status, headers and body."""
    head, _, body = said(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body.decode()


def test_a_host_that_works_is_alive_and_ready(port):
    alive, _, told = asked(port, "/healthz")
    ready, headers, _ = asked(port, "/readyz?verbose")

    assert (alive, ready) == (200, 200)
    assert json.loads(told) == {"alive": True, "reasons": []}
    assert headers["Content-Type"] == "application/json"
    assert headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("played", "reason"),
    [
        ({"working": 0}, "no worker process is at its desk"),
        ({"beaten": None}, "the database has not answered yet"),
        ({"beaten": -60.0}, "the database has not answered for 60 s"),
    ],
)
def test_one_that_does_not_work_is_alive_and_says_why_it_is_not_ready(host, port, played, reason):
    host.played |= {name: time.monotonic() + value if name == "beaten" and value else value for name, value in played.items()}
    looked(host)
    status, _, told = asked(port, "/readyz")

    assert status == 503
    assert json.loads(told) == {"ready": False, "reasons": [reason]}
    assert asked(port, "/healthz")[0] == 200


def test_one_that_stops_is_alive_and_not_ready_at_once(host, port):
    host.stop()

    assert json.loads(asked(port, "/readyz")[2])["reasons"] == ["the host stops"]
    assert asked(port, "/healthz")[0] == 200


def test_one_whose_main_thread_hangs_is_not_alive(host, port):
    host.signs = host.signs._replace(at=time.monotonic() - STALE - 5)
    status, _, told = asked(port, "/healthz")

    assert status == 503
    assert json.loads(told)["reasons"] == ["the supervisor's main thread has not gone round for 15 s"]
    assert asked(port, "/readyz")[0] == 503


def test_metrics_sum_the_processes_of_the_host_and_survive_their_ends(host, port):
    host.shared.desk(0)[board.ENDED] = 5
    host.shared.desk(1)[board.ENDED] = 7
    host.shared.lane(1, 0, 0).slots[2] = 4711
    looked(host)
    emit("process.died", code=1)
    host.shared.clear(1)  # the next process sits down there
    host.shared.desk(1)[board.ENDED] = 2
    host.shared.lane(0, 1, 0).slots[0] = 4712
    looked(host)
    status, headers, told = asked(port, "/metrics")

    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = told.splitlines()
    assert "fastq_outcomes_total 14" in lines
    assert 'fastq_executing{queue="default"} 0' in lines
    assert 'fastq_executing{queue="emails"} 1' in lines
    assert 'fastq_slots{queue="default"} 6' in lines
    assert 'fastq_leads{lease="leader:default"} 1' in lines
    assert 'fastq_events_total{event="process.died"} 1' in lines
    assert {"fastq_alive 1", "fastq_ready 1", "fastq_places 2", "fastq_processes 2"} <= set(lines)
    names = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(names) == len(set(names))
    assert {line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")} == set(names)
    assert told.endswith("\n")


def test_the_figures_of_the_schema_are_told_where_they_are_known(host, port):
    alone = asked(port, "/metrics")[2]
    row = QueueRow('a "queue"', None, None, None, 5, 4, 3, 2, 1, processes=7)
    host.counts.newest = Counted(time.monotonic(), [row])
    looked(host)
    lines = asked(port, "/metrics")[2].splitlines()

    assert "fastq_jobs" not in alone
    states = {"available": 5, "running": 4, "scheduled": 3, "retryable": 2, "waiting": 1}
    assert {f'fastq_jobs{{queue="a \\"queue\\"",state="{state}"}} {count}' for state, count in states.items()} <= set(lines)
    assert 'fastq_queue_processes{queue="a \\"queue\\""} 7' in lines


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /readyz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /readyz\r\n\r\n", 400),
        (b"GET http://other/readyz HTTP/1.1\r\n\r\n", 400),
        (b"GET /readyz HTTP/2.0\r\n\r\n", 400),
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /readyz HTTP/1.1\r\n" + b"A: b\r\n" * 5_000 + b"\r\n", 431),
        (b"GET /readyz HTTP/1.1\r\nX: " + b"x" * 300_000, 431),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else value,
)
def test_what_is_no_probe_is_refused(port, request_, status):
    assert said(port, request_).split(b"\r\n")[0].split()[1] == str(status).encode()
    assert asked(port, "/healthz")[0] == 200


def test_head_is_answered_without_a_body(port):
    status, headers, body = asked(port, "/healthz", "HEAD")

    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


def test_a_client_that_sends_a_byte_now_and_then_is_closed_in_time(port, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with connected(port) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")

        def closed():
            try:
                slow.sendall(b"x")
                return False
            except OSError:
                return True

        wait_for(closed, what="the end of the connection")


def test_a_client_that_does_not_take_its_answer_is_closed_in_time(port, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with connected(port) as deaf:
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        wait_for(lambda: not port._open, what="the end of the connection")


def test_hundreds_of_silent_connections_keep_no_probe_out(port):
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected(port)).sendall(b"GET /")
        assert asked(port, "/healthz")[0] == 200
        assert len(port._open) <= module.CONNECTIONS

    wait_for(lambda: not port._open, what="the end of the connections")


def test_probes_at_once_are_all_answered(port):
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(asked(port, "/readyz")[0])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 20


def test_its_end_closes_the_connections_that_are_open_and_gives_the_address_back(host):
    first = Port("127.0.0.1:0", host)
    first.start()
    with connected(first) as open_:
        wait_for(lambda: first._open, what="the connection")
        first.finish(time.monotonic() + 5)
        wait_for(lambda: first.ended, what="its end")
        assert open_.recv(10) == b""
    second = Port(first.address, host)
    second.finish(time.monotonic())


def test_an_address_that_is_taken_is_a_mistake_of_the_settings(host, port):
    with pytest.raises(ConfigError, match=rf"FASTQ_HEALTH: cannot listen on {port.address} \(Address already in use\)"):
        Port(port.address, host)


def test_the_sixth_version_of_addresses_is_taken(host):
    if not socket.has_ipv6:
        pytest.skip("no such addresses here")
    try:
        made = Port("[::1]:0", host)
    except ConfigError:
        pytest.skip("no such addresses here")
    made.start()
    try:
        assert made.address.startswith("[::1]:")
        with socket.create_connection(("::1", int(made.address.rpartition(":")[2])), 5) as asking:
            asking.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert asking.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        made.finish(time.monotonic() + 5)
