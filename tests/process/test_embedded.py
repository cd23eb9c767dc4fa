"""The embedded Postgres: sharing, stopping, and every way in which its users die."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.postgres import embedded
from tests.helpers import execute, process_exists, wait_until_gone

pytestmark = pytest.mark.process

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user for the server")
USER = """
import sys, time
from pathlib import Path
from fastq.postgres import embedded
server = embedded.start(Path(sys.argv[1]))
print(server.pid, flush=True)
exec(sys.argv[2])
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Give a folder for servers; shared by the tests, for initdb takes half a second."""
    folder = Path(tempfile.mkdtemp(prefix="fastq-embedded-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    embedded.start(folder).stop()
    shutil.rmtree(folder)


def spawn_user(folder: Path, then: str) -> "subprocess.Popen[str]":
    """Start a process that uses the folder's server, prints its pid and runs `then`."""
    command = [sys.executable, "-c", USER, str(folder), then]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def next_line(user: "subprocess.Popen[str]") -> str:
    assert user.stdout
    return user.stdout.readline().strip()


def test_a_server_answers_on_its_socket_only_and_keeps_its_promises(folder):
    with embedded.start(folder) as server:
        settings = [
            execute(server.url, f"show {name}")[0][0]
            for name in ("listen_addresses", "fsync", "synchronous_commit", "server_version_num")
        ]

    assert settings[:3] == ["", "on", "on"]
    assert settings[3].startswith("18")


def test_settings_reach_the_server_whatever_characters_they_have(folder):
    with embedded.start(folder, settings={"cluster_name": "it's", "fsync": "off"}) as server:
        assert execute(server.url, "show cluster_name") == [("it's",)]
        assert execute(server.url, "show fsync") == [("off",)]


def test_the_last_user_stops_the_server_and_no_other(folder):
    first = embedded.start(folder)
    second = embedded.start(folder)
    pid = first.pid
    assert second.pid == pid

    first.stop()
    assert execute(second.url, "select 1") == [(1,)]

    second.stop()
    wait_until_gone([pid])
    second.stop()


def test_processes_that_start_at_once_share_one_server(folder):
    users = [spawn_user(folder, "input()") for _ in range(3)]

    assert len({next_line(user) for user in users}) == 1
    assert [user.communicate("\n") and user.returncode for user in users] == [0, 0, 0]


def test_a_user_that_exits_without_stopping_stops_the_server(folder):
    user = spawn_user(folder, "pass")
    pid = int(next_line(user))

    user.communicate()
    wait_until_gone([pid])


def test_ctrl_c_ends_the_user_and_shuts_the_server_down_in_order(folder):
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # whoever runs the tests may ignore it
    user = spawn_user(folder, f"{listen}; print('ready', flush=True); time.sleep(60)")
    pid = int(next_line(user))
    assert next_line(user) == "ready"

    os.killpg(user.pid, signal.SIGINT)

    user.communicate()
    wait_until_gone([pid])
    assert (folder / "data" / "server.log").read_text().splitlines()[-1].endswith("database system is shut down")


def test_the_server_of_a_killed_user_is_adopted_and_then_stopped(folder):
    user = spawn_user(folder, "time.sleep(60)")
    pid = int(next_line(user))
    user.kill()
    user.communicate()
    assert process_exists(pid)

    with embedded.start(folder) as server:
        assert server.pid == pid
        assert execute(server.url, "select 1") == [(1,)]
    wait_until_gone([pid])


def test_a_killed_server_is_started_again_with_what_was_committed(folder):
    server = embedded.start(folder)
    execute(server.url, "create table kept as select 1 as n")
    dead = server.pid
    os.kill(dead, signal.SIGKILL)
    wait_until_gone([dead])

    with embedded.start(folder) as again:
        assert again.pid != dead
        assert execute(again.url, "select n from kept") == [(1,)]
        execute(again.url, "drop table kept")
        server.stop()
        assert execute(again.url, "select 1") == [(1,)]


def test_a_stale_pid_file_that_names_a_living_process_is_no_obstacle(folder):
    embedded.start(folder).stop()
    data = folder / "data"
    user = data.stat().st_uid
    living = subprocess.Popen(["/bin/sleep", "60"], user=user, cwd="/")
    lines = [str(living.pid), str(data), "1700000000", "5432", str(data), "", "  1  2", "ready   "]
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n")
    os.chown(data / "postmaster.pid", user, -1)

    with embedded.start(folder) as server:
        assert execute(server.url, "select 1") == [(1,)]
    assert living.poll() is None
    living.kill()
    living.wait()


def test_a_forked_child_that_exits_leaves_its_parents_server_alone(folder):
    forks = "import os; child = os.fork(); child or sys.exit(); os.waitpid(child, 0); print('reaped', flush=True); input()"
    user = spawn_user(folder, forks)
    pid = int(next_line(user))
    assert next_line(user) == "reaped"

    assert process_exists(pid)
    user.communicate("\n")
    wait_until_gone([pid])


def test_a_folder_too_deep_for_a_socket_has_it_elsewhere(folder):
    deep = folder / ("deep" * 30)
    deep.mkdir()
    deep.chmod(0o711)

    with embedded.start(deep) as server:
        assert execute(server.url, "select 1") == [(1,)]
        sockets = Path(server.url.partition("host=")[2])
        assert sockets.exists()
    assert not sockets.exists()


def test_a_folder_of_another_version_is_refused_by_name(folder):
    with pytest.raises(ConfigError, match="was made by postgres 18, 16 was asked for"):
        embedded.start(folder, 16)


def test_a_version_that_does_not_exist_is_refused_with_those_that_do(folder):
    with pytest.raises(ConfigError, match=r"has the versions \[16, 18\]; 9 was asked for"):
        embedded.start(folder, 9)


def test_without_the_extra_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package")

    with pytest.raises(ConfigError, match="the embedded one is not installed: set FASTQ_DATABASE_URL, or pip install"):
        embedded.start(folder)


@as_root
def test_a_folder_that_is_closed_to_others_stays_closed_and_works(folder):
    closed = folder / "closed"
    closed.mkdir(mode=0o700)

    with embedded.start(closed) as server:
        assert execute(server.url, "select 1") == [(1,)]
        home = server.data.parent
    assert closed.stat().st_mode & 0o077 == 0
    assert (closed / "data").resolve() == home / "data"
    assert home.is_relative_to(embedded.ROOT_HOME)
    shutil.rmtree(home)


@as_root
def test_binaries_that_are_closed_to_others_are_copied_once(folder, monkeypatch):
    monkeypatch.setattr(embedded, "ROOT_HOME", folder / "home")
    real = embedded._open_to_all
    monkeypatch.setattr(embedded, "_open_to_all", lambda path: path.name != "postgres" and real(path))
    embedded.start(folder).stop()
    copy = embedded._binaries(18)

    with embedded.start(folder) as server:
        assert copy.is_relative_to(folder / "home")
        assert Path(f"/proc/{server.pid}/exe").readlink() == copy / "postgres"
    shutil.rmtree(folder / "home")


def as_nobody(folder: Path, script: str) -> None:
    """Do something in the data folder with the rights of the server's user, as whoever has broken into it would."""
    data = (folder / "data").resolve()
    subprocess.run(["/bin/sh", "-ec", script], user=data.stat().st_uid, extra_groups=[], cwd=data, check=True)


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """Give a file of root's that nobody else may read or write; at the end it is what it was."""
    file = tmp_path / "secret"
    file.write_text("root:secret")
    file.chmod(0o600)
    for part in (tmp_path, *tmp_path.parents):
        if part.is_relative_to(tempfile.gettempdir()) and part != Path(tempfile.gettempdir()):
            part.chmod(0o711)
    before = file.stat()
    yield file
    after = file.stat()
    assert file.read_text() == "root:secret"
    assert (after.st_ino, after.st_uid, after.st_mode) == (before.st_ino, before.st_uid, before.st_mode)


@as_root
@pytest.mark.parametrize("name", ["fastq.conf", "postmaster.pid", "server.log", "PG_VERSION"])
def test_root_is_not_led_elsewhere_by_a_link_of_the_servers_user(name, folder, secret):
    embedded.start(folder).stop()
    as_nobody(folder, f"test ! -e {name} || mv {name} kept; ln -s {secret} {name}")

    try:
        embedded.start(folder).stop()
    except (ConfigError, DatabaseUnavailable) as error:
        told = str(error)
    else:
        told = ""
    finally:
        as_nobody(folder, f"rm -f {name}; test ! -e kept || mv kept {name}")
    assert "secret" not in told.replace(str(secret), "")


@as_root
def test_root_deletes_no_folder_that_the_servers_user_names(folder, secret):
    deep = folder / ("deeper" * 20)
    deep.mkdir()
    deep.chmod(0o711)
    server = embedded.start(deep)
    sockets = server.url.partition("host=")[2]
    as_nobody(deep, f"sed -i 's,{sockets},{secret.parent},' postmaster.pid")

    with socket.socket(socket.AF_UNIX) as listening:  # as a server would there
        listening.bind(str(secret.parent / ".s.PGSQL.5432"))
        listening.listen()
        server.stop()

    assert secret.exists()
    shutil.rmtree(sockets, ignore_errors=True)


@as_root
def test_nobody_else_can_hold_the_locks(folder):
    embedded.start(folder).stop()

    assert {name: (folder / name).stat().st_mode & 0o777 for name in ("lock", "users")} == {"lock": 0o600, "users": 0o600}
    with pytest.raises(subprocess.CalledProcessError):
        as_nobody(folder, ": < ../lock")


@as_root
def test_a_lock_that_an_earlier_version_left_open_to_all_is_closed(folder):
    (folder / "lock").touch()
    (folder / "lock").chmod(0o644)

    embedded.start(folder).stop()

    assert (folder / "lock").stat().st_mode & 0o777 == 0o600


@as_root
def test_a_folder_of_somebody_elses_is_refused(folder):
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)

    with pytest.raises(ConfigError, match="belongs to uid 65534, expected uid 0: choose another folder"):
        embedded.start(theirs)

    assert list(theirs.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(folder):
    everybodys = folder / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o777)

    with pytest.raises(ConfigError, match=r"is open to writers \(mode 777\): give --data-dir a folder of its own"):
        embedded.start(everybodys)

    assert list(everybodys.iterdir()) == []
