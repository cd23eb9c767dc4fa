"""What a service manager hears of a supervisor, by datagrams to a real socket."""

import os
import socket
import time

import pytest

from fastq.environment import service_manager
from fastq.host.vitals.notify import STATUS_PAUSE, Manager
from fastq.host.vitals.vitals import Signs

SIGNS = Signs(0.0, 0.0, False, 2, 2, {"default": 3, "emails": 1}, {"default": 6, "emails": 2}, 10, [], {})


@pytest.fixture(params=["a path", "an abstract name"])
def manager(tmp_path, request):
    """Give the socket of a manager, and its name as the environment has it."""
    if request.param == "an abstract name" and not hasattr(socket, "MSG_ERRQUEUE") and os.uname().sysname != "Linux":
        pytest.skip("Linux alone has them")
    name = str(tmp_path / "notify") if request.param == "a path" else f"@fastq-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name if name.startswith("/") else f"\0{name[1:]}")
        listening.setblocking(False)
        listening.name = name
        yield listening


class Listening(socket.socket):
    """A socket that has a name."""


@pytest.fixture(autouse=True)
def _named_sockets(monkeypatch):
    monkeypatch.setattr(socket, "socket", Listening)


def heard(listening):
    """Return the datagrams that have come."""
    told = []
    while True:
        try:
            told.append(listening.recv(4_096).decode())
        except BlockingIOError:
            return told


def test_it_hears_once_that_the_host_is_ready_and_how_it_is(manager):
    told = Manager(manager.name)
    told.tell(SIGNS._replace(working=0), False, 100.0)
    told.tell(SIGNS, True, 100.5)
    told.tell(SIGNS, True, 100.0 + STATUS_PAUSE)

    assert heard(manager) == [
        "STATUS=is not ready: 0 of 2 processes, 4 jobs executing",
        "READY=1",
        "STATUS=works: 2 of 2 processes, 4 jobs executing",
    ]


def test_the_watchdog_hears_twice_in_its_time(manager):
    told = Manager(manager.name, 4.0)
    for at in range(100, 110):
        told.tell(SIGNS, False, float(at))

    assert heard(manager).count("WATCHDOG=1") == 5


def test_it_hears_once_that_the_host_stops_and_nothing_after_the_end(manager):
    told = Manager(manager.name, 1.0)
    told.stopping()
    told.stopping()
    told.close()
    told.tell(SIGNS, True, 100.0)

    assert heard(manager) == ["STOPPING=1"]


def test_a_manager_that_takes_nothing_holds_nobody_up(manager):
    told = Manager(manager.name, 0.001)
    for at in range(5_000):
        told.tell(SIGNS, True, float(at))

    assert 0 < len(heard(manager)) < 5_000


def test_a_manager_that_is_gone_is_none(tmp_path):
    told = Manager(str(tmp_path / "nowhere"))
    told.tell(SIGNS, True, 1.0)
    told.close()


def test_without_a_manager_nothing_is_told():
    told = Manager()
    told.tell(SIGNS, True, 1.0)

    assert not told


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ("", None)),
        ({"NOTIFY_SOCKET": "/run/notify"}, ("/run/notify", None)),
        ({"NOTIFY_SOCKET": "@abstract", "WATCHDOG_USEC": "30000000"}, ("@abstract", 30.0)),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, ("/run/notify", 30.0)),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, ("/run/notify", None)),
        ({"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "soon"}, ("", None)),
    ],
)
def test_the_environment_names_it_and_does_not_hand_it_on(monkeypatch, variables, expected):
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert service_manager(7) == expected
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys()
