"""The bytes of args that a process holds: large ones are counted from the claim until their outcome is written."""

from types import SimpleNamespace

from fastq.jobs.job import Job
from fastq.work.codec.claimed import SEPARATOR, Claimed
from fastq.work.codec.codec import decode
from fastq.work.shared import budget as budget_module
from fastq.work.shared.budget import SETTLED, TRIM, Budget
from tests.codec.claims import TOKEN

RING = 100
LIMIT = 200_000  # half of it for small args: 1,000 bytes each, as many as the ring holds


def claimed(*sizes, claim=TOKEN, counted=None):
    """Return a claim of jobs with args of these sizes, with ids from 1 on."""
    count = len(sizes)
    numbers = b"".join(number.to_bytes(8, "big") for number in range(1, count + 1))
    args = (b"," + SEPARATOR).join(b"1" * size for size in sizes)
    total = sum(size for size in sizes if size >= 1_000) if counted is None else counted
    counts = (1 << 32 | 25 << 16 | 1).to_bytes(8, "big") * count
    kinds = SEPARATOR.join([b"k"] * count)
    return Claimed("default", claim, [numbers, numbers, counts, bytes(8 * count), kinds, args, None, None, b"%d" % total])


def jobs_of(some):
    """Return the jobs of a claim; nobody knows their kind."""
    jobs = decode(some, {})[2]
    assert all(type(job) is Job for job in jobs)
    return jobs


def test_large_args_take_room_until_their_outcome_is_written():
    budget = Budget(LIMIT, RING)
    one, two = claimed(40_000, 999, 1_000), claimed(50_000, claim=TOKEN + 1)

    budget.took(one)
    budget.took(two)
    assert budget.room() == 100_000 - 91_000
    budget.ended(jobs_of(one), [])
    assert budget.room() == 50_000
    budget.ended(jobs_of(two), [])
    assert budget.room() == 100_000


def test_a_job_that_is_kept_keeps_its_room_and_one_that_came_again_meanwhile_has_its_own():
    budget = Budget(LIMIT, RING)
    first, again = claimed(30_000, 20_000), claimed(30_000, claim=TOKEN + 1)
    budget.took(first)
    kept, done = jobs_of(first)

    budget.ended([kept, done], [kept])
    budget.took(again)
    assert budget.room() == 100_000 - 60_000
    budget.ended([kept], [])
    budget.ended(jobs_of(again), [])
    assert budget.room() == 100_000


def test_a_claim_may_bring_a_part_of_what_is_left_and_one_job_at_least():
    budget = Budget(LIMIT, RING)

    assert budget.next() == 50_000
    budget.took(claimed(60_000))
    assert budget.next() == 40_000
    budget.took(claimed(90_000, claim=TOKEN + 1))
    assert (budget.room(), budget.next()) == (-50_000, 1)


def test_what_small_jobs_hold_in_all_fits_the_other_half_whatever_the_ring():
    assert all(
        Budget(limit, ring).counted_from * ring <= max(limit // 2, ring) for limit in (65_536, 2**25) for ring in (5, 20_064)
    )


def test_memory_is_given_back_once_when_much_was_held_and_nothing_has_been_for_a_moment(monkeypatch):
    trimmed, clock = [], SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
    monkeypatch.setattr(budget_module, "_trim", trimmed.append)
    monkeypatch.setattr(budget_module, "time", clock)
    budget = Budget(100 * TRIM, RING)
    large, small = claimed(TRIM), claimed(TRIM - 1, claim=TOKEN + 1)

    for some, calls in ((small, []), (large, [0]), (small, [0]), (large, [0, 0])):
        before = len(trimmed)
        budget.took(some)
        assert budget.rest(60.0) == 60.0
        budget.ended(jobs_of(some), [])
        rest = budget.rest(60.0)
        assert rest == (60.0 if len(calls) == before else SETTLED)
        assert len(trimmed) == before  # the threads may not have let go of these jobs yet
        clock.now += 2 * rest
        assert (budget.rest(60.0), budget.rest(60.0)) == (60.0, 60.0)
        assert trimmed == calls
