"""The claim: which jobs it takes, in which order, what it answers, and what it costs."""

import struct
from datetime import UTC, datetime, timedelta

import pytest

from fastq.work.codec.codec import encode_ids
from tests.db.jobs import END, NO_BOUND, START, add, claim, claim_number, claimed_ids, living, parts_of
from tests.helpers import wait_for


def test_claim_takes_only_available_jobs_of_its_queue(connection):
    mine = add(connection, 2)
    add(connection, queue="emails")
    add(connection, state="running", claim=7)
    add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(connection, state="retryable", seq=None, scheduled_at="2000-01-01")

    assert claimed_ids(connection) == mine


def test_claim_marks_the_jobs_as_running_and_charges_the_attempt(connection):
    (job_id,) = add(connection, attempt=2)

    (job,) = claim(connection, claim_number(3, 9))

    row = living(connection, job_id)
    assert (row["state"], row["claim"], row["attempt"]) == ("running", claim_number(3, 9), 3)
    assert connection.execute("select clock_timestamp() - $1 < '5 s'", row["attempted_at"]) == [(True,)]
    assert job.attempt == 3


def test_claim_takes_the_best_priority_first_and_each_in_the_order_of_seq(connection):
    add(connection, 3, priority=4)
    second = add(connection, 2, priority=2)
    first = add(connection, 2, priority=1)

    assert sorted(claimed_ids(connection, limit=3)) == sorted([*first, second[0]])
    assert claimed_ids(connection, limit=1) == [second[1]]


def test_claim_takes_nothing_at_or_below_the_cursor_of_a_priority(connection):
    for priority in (1, 2, 3, 4):
        add(connection, 3, priority=priority)
    seqs = {
        (p, n): seq
        for p, n, seq in connection.execute(
            "select priority, row_number() over (partition by priority order by seq), seq from fastq.job"
        )
    }

    after = (seqs[1, 3], seqs[2, 2], seqs[3, 1], seqs[4, 2] - 1)
    claimed = {(job.priority, job.seq) for job in claim(connection, after=after)}

    assert claimed == {(2, seqs[2, 3]), (3, seqs[3, 2]), (3, seqs[3, 3]), (4, seqs[4, 2]), (4, seqs[4, 3])}


def test_claim_takes_nothing_above_the_upper_end(connection):
    ids = add(connection, 3)
    second = living(connection, ids[1])["seq"]

    assert claimed_ids(connection, upto=second) == ids[:2]


@pytest.mark.parametrize("limit", [0, 1, 4, 5])
def test_claim_takes_at_most_its_limit_over_all_priorities(connection, limit):
    add(connection, 2, priority=1)
    add(connection, 2, priority=4)

    assert len(claim(connection, limit=limit)) == min(limit, 4)


def test_claim_locks_no_more_than_it_takes(connection, other):
    add(connection, 10)
    connection.execute("begin")
    claim(connection, limit=4)

    assert len(claim(other)) == 6
    connection.execute("rollback")


def test_claim_steps_over_jobs_that_others_have_locked_without_waiting(connection, other):
    ids = add(connection, 4)
    other.execute("begin")
    other.execute("select from fastq.job where id = any ($1) for update", ids[:2])
    connection.execute("set lock_timeout = '1ms'")

    assert claimed_ids(connection) == ids[2:]
    other.execute("rollback")
    assert claimed_ids(connection) == ids[:2]


def test_two_claims_never_take_the_same_job(connection, other):
    ids = add(connection, 6)

    assert claimed_ids(connection, limit=4) + claimed_ids(other, claim_number(2, 1)) == ids


def test_a_paused_queue_gives_nothing_until_it_is_resumed(connection):
    ids = add(connection, 2)
    connection.execute("insert into fastq.queue (name, paused_at) values ('default', now()), ('emails', null)")
    emails = add(connection, 1, queue="emails")

    assert claim(connection) == []
    assert claimed_ids(connection, queue="emails") == emails
    connection.execute("update fastq.queue set paused_at = null")
    assert claimed_ids(connection) == ids


def test_the_answer_is_one_row_of_blobs_as_documented(connection):
    one = add(connection, kind="nap", args='{ "s": 0.5 }', max_attempts=3, priority=2)[0]
    two = add(
        connection,
        kind="mail",
        args='["a\\u001eb", "ü"]',
        attempt=32_000,
        max_attempts=32_767,
        priority=3,
        tags=["x", "y"],
        meta='{"a": [1.50]}',
    )[0]
    parameters = [
        struct.pack(">q", claim_number(1, 1)),
        b"default",
        *[struct.pack(">q", 0)] * 4,
        struct.pack(">q", 10),
        *[struct.pack(">q", END)] * 4,
        *[struct.pack(">q", number) for number in NO_BOUND],
        encode_ids([]),
    ]

    _, (ids, seqs, packs, created, kinds, args, beside, clock, large) = connection.run_blobs("job_claim", parameters)

    assert struct.unpack(">2q", ids) == (one, two)
    assert struct.unpack(">2q", seqs) == tuple(living(connection, job_id)["seq"] for job_id in (one, two))
    assert struct.unpack(">2q", packs) == (1 << 32 | 3 << 16 | 2, 32_001 << 32 | 32_767 << 16 | 3)
    assert struct.unpack(">2q", created) == tuple(microseconds(living(connection, job_id)["created_at"]) for job_id in (one, two))
    assert kinds == b"nap\x1email"
    assert args == b'{ "s": 0.5 },\x1e["a\\u001eb", "\xc3\xbc"]', "args are the very bytes that were enqueued"
    assert beside == b'{ "%d" : {"tags" : ["x","y"], "meta" : {"a": [1.50]}} }' % two
    (now,) = connection.run_one("clock_after", 0.0)
    assert now.timestamp() - 5 < float(clock) <= now.timestamp(), "the time of the claim, for jobs that have meta"
    assert large == b"0"


def test_a_claim_that_finds_nothing_answers_with_one_row_of_nulls(connection):
    assert connection.run("job_claim", 1, "default", *START, 10, *[END] * 4, *NO_BOUND, []) == [(*[None] * 8, "0")]


def test_claims_touch_no_index(connection):
    add(connection, 1_000)

    assert len(claim(connection, limit=1_000)) == 1_000

    assert hot_and_all_updates(connection) == (1_000, 1_000)


def microseconds(time):
    """Return a time as Postgres sends it: microseconds since 2000."""
    return (time - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def hot_and_all_updates(connection):
    """Return the counts of heap-only and of all updates of the job table, once the session has published them."""
    if connection.raw.info.server_version >= 150_000:
        connection.execute("select pg_stat_force_next_flush()")  # 14 publishes by itself, a second later
    read = "select n_tup_hot_upd, n_tup_upd from pg_stat_user_tables where relid = 'fastq.job'::regclass and n_tup_upd > 0"
    return wait_for(lambda: connection.execute(read), what="the statistics of the claim")[0]


FROM = 800  # bytes from which on args are large
ALIKE = '"' + "x" * 5_000 + '"'  # stored in 72 bytes
VARIED = '"' + "".join(chr(33 + 7 * n % 59) for n in range(5_000)).replace('"', "x").replace("\\", "x") + '"'


@pytest.fixture(params=["job_claim", "job_claim_part"])
def claim_bounded(request, connection):
    """Give both ways to claim: ids, the bytes that were counted, and seq of the job that was left for them."""

    def run(size, after=0):
        ends = [END] if request.param == "job_claim_part" else [0, 0, 0, 100, END, END, END, END]
        numbers = [after, *ends, size, FROM, *([[]] if request.param == "job_claim" else [])]
        row = connection.run_one(request.param, claim_number(1, 1), "default", *numbers)
        counted, *left = map(int, row[8].split())
        return [job.id for job in parts_of(row)], counted, left[1] if left else None

    return run


@pytest.mark.parametrize("args", [ALIKE, VARIED], ids=["compressed", "varied"])
def test_large_args_are_taken_up_to_the_bytes_of_their_text_and_the_first_that_is_left_is_told(connection, claim_bounded, args):
    first = add(connection, args='"' + "x" * 500 + '"')
    large = add(connection, 4, args=args)
    last = add(connection, 2)
    seqs = [living(connection, job)["seq"] for job in large]

    assert claim_bounded(2 * len(args) - 100) == ([*first, *large[:2], *last], pytest.approx(2 * len(args), abs=8), seqs[2])
    assert claim_bounded(1, seqs[2] - 1) == (large[2:3], pytest.approx(len(args), abs=4), seqs[3])
    assert claim_bounded(10**9, seqs[3] - 1) == (large[3:], pytest.approx(len(args), abs=4), None)
    assert claim_bounded(1) == ([], 0, None)


def test_a_claim_counts_no_row_that_somebody_else_has_locked(connection, other):
    ids = add(connection, 3, args=VARIED)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", ids[0])

    assert claimed_ids(connection, bound=(1, FROM)) == ids[1:2]


def test_a_claim_passes_over_the_ids_that_it_is_given(connection):
    ids = add(connection, 5)

    assert claimed_ids(connection, aside=ids[1:3], limit=2) == [ids[0], ids[3]]
    assert claimed_ids(connection) == [ids[1], ids[2], ids[4]]


@pytest.mark.parametrize(
    ("columns", "waits"),
    [({}, "off"), ({"tags": "{a}"}, "off"), ({"meta": '{"carried": {}}'}, "on")],
    ids=["plain", "tags", "meta"],
)
def test_the_commit_of_a_claim_waits_for_the_disk_where_a_job_has_meta_as_one_that_went_through_gates(connection, columns, waits):
    add(connection, 2)
    connection.execute("begin")
    claim(connection, limit=1)
    add(connection, **columns)
    connection.execute("commit; begin")
    assert len(claim(connection)) == 2
    assert connection.execute("show synchronous_commit") == [(waits,)]
    connection.execute("commit")
    assert connection.execute("show synchronous_commit") == [("on",)]
