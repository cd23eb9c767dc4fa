"""The sweep deletes the rows of keys that were given up, and of no others."""

from dataclasses import dataclass

import pytest

from fastq import Args, Client, Unique
from fastq.lead.unique import sweep
from fastq.lead.unique.sweep import Sweep
from tests.db.jobs import claim
from tests.db.leases import run_out, site_on


@dataclass
class OneArgs(Args, kind="one"):
    number: int


HELD = {  # by number: until, within, how the job ended (None: it lives), whether the key stays
    1: ("end", None, None, True),
    2: ("end", None, "discarded", False),
    3: ("start", None, None, True),
    4: ("start", None, "runs", False),
    5: ("start", None, "completed", False),
    6: ("success", None, None, True),
    7: ("success", None, "completed", False),
    8: ("success", None, "discarded", True),
    9: ("success", None, "cancelled", True),
    10: ("success", None, "deleted", False),
    11: (None, 3600, "completed", True),
    12: (None, 3600, "over", False),
    13: ("success", 3600, "over", False),
    14: ("success", None, "unarchived", False),
}


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


@pytest.mark.parametrize("window", [3, 5_000])
def test_keys_that_were_given_up_are_swept_and_others_stay(database, site, connection, monkeypatch, window):
    monkeypatch.setattr(sweep, "WINDOW", window)
    with Client(database) as client:
        for number, (until, within, _, _) in HELD.items():
            assert client.enqueue(OneArgs(number), unique=Unique("number", until=until, within=within)) == number
    runs = [number for number, (*_, how, _) in HELD.items() if how is not None]
    connection.execute("update fastq.job set seq = seq + 1000 where id <> all ($1::bigint[])", runs)
    assert sorted(job.id for job in claim(connection, 77, upto=1000)) == runs
    for number in runs:
        how = HELD[number][2]
        if how in ("completed", "discarded", "cancelled"):
            connection.run_one("job_finish", [number], [77], [how], [None], [None], None)
        elif how in ("deleted", "unarchived"):
            connection.run("job_complete", [number], [77])
        elif how == "over":
            connection.execute("update fastq.unique_key set expires_at = clock_timestamp() where job_id = $1", number)

    gone = run_out(Sweep(), site)

    left = [number for (number,) in connection.execute("select job_id from fastq.unique_key order by 1")]
    assert left == [number for number, (*_, stays) in HELD.items() if stays]
    assert gone == len(HELD) - len(left)


def test_a_key_that_is_being_taken_over_is_left_alone(database, site, connection, other):
    with Client(database) as client:
        client.enqueue(OneArgs(1), unique=Unique())
        connection.execute("delete from fastq.job")
        other.execute("begin")
        other.execute("select from fastq.unique_key for update")
        assert run_out(Sweep(), site) == 0
        other.execute("rollback")
        assert run_out(Sweep(), site) == 1
