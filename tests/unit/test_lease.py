"""The lease without a database: who we are, which settings can work, when candidates come, and keys of advisory locks."""

import os
import re
import subprocess
import sys
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

from fastq.config import Config
from fastq.errors import ConfigError, LeaseError
from fastq.leases import lease
from fastq.leases.elector import Elector
from fastq.leases.lease import JITTER, MARGIN, RENEW_AT, Answer, Lease, Watch, identity, trust_of
from fastq.postgres.advisory import lock_key

ROOT = Path(__file__).parent.parent.parent
PRINT = "from fastq.leases.lease import identity; print(identity())"


def identity_of_child(queue):
    queue.put((identity(), identity()))


@pytest.mark.lease("L19")
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "-inf", "x", "0.9", "1e9", "1,5"])
def test_a_bad_ttl_stops_the_start_and_names_the_variable(value, monkeypatch):
    with pytest.raises(ConfigError, match=f"FASTQ_LEASE_TTL: expected seconds, 1 to 3600, got {value!r}"):
        Config.load({"FASTQ_LEASE_TTL": value})

    monkeypatch.setenv("FASTQ_LEASE_TTL", value)  # read when it is asked for, not when the module was imported
    with pytest.raises(ConfigError, match="FASTQ_LEASE_TTL"):
        Lease("report", url="postgresql://nowhere")


@pytest.mark.lease("L19")
@pytest.mark.parametrize("ttl", [0, -1.0, float("nan"), float("inf"), True, 0.05, 1e9])
def test_a_bad_ttl_of_a_users_lease_is_refused(ttl):
    with pytest.raises(LeaseError, match="ttl: expected"):
        Lease("report", url="postgresql://nowhere", ttl=ttl)


@pytest.mark.lease("L19")
def test_a_lease_is_renewed_before_half_of_it_is_over_and_twice_before_trust_ends():
    assert RENEW_AT < 0.5
    assert 2 * RENEW_AT < 1 - MARGIN


@pytest.mark.lease("L19")
def test_the_time_to_live_is_ten_seconds_unless_told_otherwise():
    assert Config.load({}).lease_ttl == 10.0
    assert Config.load({"FASTQ_LEASE_TTL": "2.5"}).lease_ttl == 2.5


@pytest.mark.lease("L17")
def test_trust_ends_before_the_lease_by_the_margin():
    assert trust_of(sent=100.0, ttl=10.0) == 100.0 + 10.0 * (1 - MARGIN)
    assert MARGIN == 0.1


@pytest.mark.lease("L22")
def test_fifty_candidates_come_at_different_moments_and_none_later_than_the_bound():
    pauses = sorted(Watch().note(Answer(None, "h", "then", 3.0, 10.0)) for _ in range(50))

    assert all(3.0 < pause <= 3.0 + JITTER for pause in pauses)
    assert JITTER < 0.5, "so that a takeover after a crash takes the ttl and half a second at most"
    # However they fall, no tenth of the jitter may attract half of them.
    assert max(sum(low <= pause < low + JITTER / 10 for pause in pauses) for low in pauses) < 25


@pytest.mark.lease("L22")
def test_a_candidate_comes_again_soon_for_a_lease_that_has_run_out_and_waits_no_longer_than_the_holders_ttl():
    assert Watch().note(Answer(None, "h", "then", -0.1, 10.0)) < 0.1
    assert Watch().note(Answer(None, "", "-infinity", None, 10.0)) < 0.1
    assert Watch().note(Answer(None, "h", "then", 3600.0, 10.0)) <= 10.0 + JITTER, "the server's clock was set back"


@pytest.mark.lease("L23")
def test_an_identity_is_host_pid_and_chance_the_same_for_all_threads_of_a_process(monkeypatch):
    lease._identities.clear()
    together, found = threading.Barrier(16), []

    def ask():
        together.wait(5)
        found.append(identity())

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert re.fullmatch(rf".{{1,60}}:{os.getpid()}:[0-9a-f]{{8}}", identity())
    assert identity() == found[0]


@pytest.mark.lease("L23")
def test_a_fork_has_an_identity_of_its_own():
    mine, context = identity(), get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=identity_of_child, args=(queue,))
    child.start()
    theirs, again = queue.get()
    child.join()

    assert theirs == again
    assert theirs.split(":")[1] == str(child.pid)
    assert theirs.split(":")[2] != mine.split(":")[2]
    assert identity() == mine


@pytest.mark.lease("L23")
def test_a_fork_forgets_the_identities_of_its_ancestors_since_a_pid_may_come_again():
    program = (
        "import os; from fastq.leases import lease\n"
        "lease._identities.update({pid: 'an ancestor' for pid in range(int(open('/proc/sys/kernel/pid_max').read()) + 1)})\n"
        "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "os._exit(lease.identity() == 'an ancestor')"
    )
    subprocess.check_call([sys.executable, "-c", program], cwd=ROOT)


@pytest.mark.lease("L23")
def test_a_process_started_again_with_the_same_host_and_pid_is_somebody_else(monkeypatch):
    # Containers: the hostname may be kept, and the pid is 1 each time.
    program = "import os; os.getpid = lambda: 1; " + PRINT
    first, second = (subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True).strip() for _ in range(2))

    assert first.split(":")[:2] == second.split(":")[:2]
    assert first.split(":")[1] == "1"
    assert first != second


@pytest.mark.lease("L23")
def test_an_identity_is_made_when_it_is_first_asked_for_not_at_import():
    program = "from fastq.leases import lease as l; assert not l._identities; l.identity(); assert len(l._identities) == 1"
    subprocess.check_call([sys.executable, "-c", program], cwd=ROOT)


@pytest.mark.lease("L24")
def test_an_elector_is_made_without_connecting_so_that_what_is_forked_before_its_start_inherits_nothing():
    elector = Elector(Config(database_url="postgresql://nowhere"), "postgresql://nowhere", [])

    assert elector._session.connection is None
    assert elector.ended


@pytest.mark.lease("L55")
def test_a_million_names_have_a_million_keys_of_64_bits():
    keys = {lock_key(purpose, f"schema_{number}") for purpose in ("migrate", "partitions") for number in range(500_000)}

    assert len(keys) == 1_000_000
    assert -(2**63) <= min(keys) < -(2**62), "all 64 bits are used"
    assert 2**62 < max(keys) < 2**63


@pytest.mark.lease("L55")
def test_the_same_schema_has_different_keys_for_different_purposes():
    assert lock_key("migrate", "fastq") != lock_key("partitions", "fastq")


@pytest.mark.lease("L55", "L30")
def test_no_lock_lives_in_a_session():
    # But for the benchmark's, a program that people run by hand: one at a time.
    files = [path for path in (ROOT / "fastq").rglob("*") if path.suffix in {".py", ".sql"} and path.parent.name != "bench"]
    taken = {word for path in files for word in re.findall(r"pg_(?:try_)?advisory_\w+", path.read_text())}

    assert len(files) > 100
    assert taken == {word for word in taken if word.startswith(("pg_advisory_xact_lock", "pg_try_advisory_xact_lock"))}
    assert taken, "else nothing was looked at"
