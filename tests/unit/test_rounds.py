"""A fair gate gives each tenant its share of each round, however many jobs another has waiting: the keeper without a database."""

from bisect import bisect_right
from collections import Counter

import pytest

from fastq.lead.gate.keeper import LARGEST_WINDOW, Keeper
from fastq.lead.gate.keys import job_of, place_of

QUEUE, WINDOW = "default", 20


def gates(tenant, share=1, weight=1, account=None):
    more = f", [{share}]" if share != 1 else ""
    limit = f', ["limit", "api", {account}, 1, 1]' if account is not None else ""
    return f'[["fair", "tenants", "{tenant}", {weight}, {WINDOW}{more}]{limit}]'


class Database:
    """The waiting jobs and the admitted ones, and a keeper that is told of them and asked."""

    def __init__(self):
        self.keeper = Keeper({})
        self.keeper.knows_lines = True
        self.waiting, self.admitted, self.gone, self.ids = {}, [], [], 0

    def enqueue(self, text, jobs=1, priority=1):
        places = [place_of(priority, self.ids + nth + 1) for nth in range(jobs)]
        self.ids += jobs
        self.waiting[text] = sorted([*self.waiting.get(text, []), *places])
        self.keeper.came(QUEUE, text, jobs, places[0])
        return [job_of(place) for place in places]

    def choose(self, most=1_000):
        """Do what a run of the chore does; return the lines of the jobs that were let go."""
        for line in self.keeper.empty(100):
            places = self.waiting[line.gates]
            begin = bisect_right(places, line.after)
            self.keeper.read(line, places[begin : begin + line.window], line.window)
        chosen = self.keeper.choose(most)
        for place, line in chosen:
            places = self.waiting[line.gates]
            del places[bisect_right(places, place) - 1]
        self.admitted += [line.gates for _, line in chosen]
        self.gone += [(line.gates, job_of(place)) for place, line in chosen]
        return [line.gates for _, line in chosen]

    def work(self, jobs):
        """End the jobs that were let go first; let others go; return the lines of these."""
        ended, self.admitted = self.admitted[:jobs], self.admitted[jobs:]
        for text in ended:
            self.keeper.freed(QUEUE, text, 1)
        went = self.choose()
        return went + self.choose()  # a window that has run out is read by the run that follows


@pytest.fixture
def database():
    return Database()


def test_a_tenant_that_comes_late_waits_for_the_window_and_no_backlog(database):
    database.enqueue(gates("large"), 100_000)
    database.choose()
    database.choose()
    assert database.admitted == [gates("large")] * WINDOW

    for tenant in range(100):
        database.enqueue(gates(tenant), 10)
    went = [text for _ in range(200) for text in database.work(10)]

    first = [text for text in went if text != gates("large")]
    assert Counter(first[:100]) == {gates(tenant): 1 for tenant in range(100)}
    done = max(at for at, text in enumerate(went) if text != gates("large"))
    assert done < 10 * 101 + 10  # ten rounds of 101 tenants: the large one has had its ten jobs meanwhile
    assert Counter(went[:done])[gates("large")] <= 11


def test_tenants_have_equal_parts_though_windows_run_out(database):
    database.enqueue(gates("a"), 5_000)
    database.enqueue(gates("b"), 5_000)
    went = database.choose() + database.choose()
    while len(went) < 4_000:
        went += database.work(WINDOW)

    assert abs(Counter(went)[gates("a")] - Counter(went)[gates("b")]) <= 2
    assert max(len(line.waiting) for line in database.keeper.every_line()) <= LARGEST_WINDOW


def test_a_share_is_how_many_jobs_a_round_has_and_a_weight_how_many_others_a_job_stands_for(database):
    usual, large, heavy = gates("usual"), gates("large", share=3), gates("heavy", weight=2)
    for text in (usual, large, heavy):
        database.enqueue(text, 1_000)
    went = []
    while len(went) < 450:
        went += database.work(5)

    counts = Counter(went)
    assert counts[large] == pytest.approx(3 * counts[usual], abs=8)
    assert counts[usual] == pytest.approx(2 * counts[heavy], abs=8)


def test_all_lines_of_a_tenant_have_one_turn_together(database):
    many = [gates("many", account=account) for account in range(50)]
    for text in many:
        database.enqueue(text, 20)
    database.enqueue(gates("one"), 1_000)
    went = []
    while len(went) < 400:
        went += database.work(4)

    of_many = sum(text in many for text in went)
    assert of_many == pytest.approx(200, abs=WINDOW)


def test_a_job_without_room_elsewhere_holds_up_no_other_tenant(database):
    database.enqueue(gates("a", account=1), 10)
    database.enqueue(gates("b"), 10)
    assert Counter(database.choose() + database.choose()) == {gates("a", account=1): 1, gates("b"): 10}

    database.admitted.remove(gates("a", account=1))
    database.keeper.freed(QUEUE, gates("a", account=1), 1)
    assert database.choose() == [gates("a", account=1)]


def test_a_tenant_whose_jobs_come_one_by_one_has_its_share_and_no_more(database):
    database.enqueue(gates("large"), 1_000)
    database.enqueue(gates("other"), 1_000)
    went = database.choose() + database.choose()
    while len(went) < 300:
        if gates("one") not in database.admitted and not database.waiting.get(gates("one")):
            database.enqueue(gates("one"))
        went += database.work(1)

    counts = Counter(went)
    assert counts[gates("one")] <= counts[gates("large")] + 2


def test_a_paused_tenant_holds_up_no_other_and_goes_on_when_it_is_resumed(database):
    database.enqueue(gates("a"), 100)
    database.enqueue(gates("b"), 100)
    database.keeper.pauses({"tenants": {'"a"'}})
    assert Counter(database.choose() + database.choose()) == {gates("b"): WINDOW}

    database.keeper.pauses({})
    went = Counter(database.work(WINDOW))
    assert went[gates("a")] == pytest.approx(went[gates("b")], abs=2)

    database.keeper.pauses({"tenants": {""}})
    assert database.work(WINDOW) == []
    database.keeper.pauses({})
    assert len(database.choose() + database.choose()) == WINDOW


def test_when_nobody_waits_nobody_owes_and_all_is_forgotten(database):
    for tenant in range(100):
        database.enqueue(gates(tenant), 3)
        database.choose()
        while database.admitted:
            database.work(100)

    assert not database.keeper.lines
    assert not database.keeper.gates


def test_jobs_that_stayed_use_up_no_turn_and_a_locked_one_holds_up_no_tenant(database):
    keeper = database.keeper
    database.enqueue(gates("cancelled"), 200)
    database.enqueue(gates("other"), 200)
    for line in keeper.empty(10):
        keeper.read(line, database.waiting[line.gates][:100], 100)
    first = keeper.choose(WINDOW)
    for place, line in reversed(first):
        if line.gates == gates("cancelled"):
            keeper.stayed(line, place, True)
    locked = Counter(line.gates for _, line in keeper.choose(WINDOW))

    assert locked == {gates("other"): WINDOW // 2}

    keeper.again(QUEUE, gates("cancelled"))
    keeper.freed(QUEUE, gates("other"), WINDOW)
    for line in keeper.empty(10):
        keeper.read(line, database.waiting[line.gates][:100], 100)
    back = [line.gates for _, line in keeper.choose(WINDOW)]
    assert back[0] == gates("cancelled")


def test_a_tenant_with_a_locked_job_and_an_empty_window_keeps_no_turn(database):
    keeper = database.keeper
    database.enqueue(gates("locked"), 50)
    database.enqueue(gates("other"), 50)
    for line in keeper.empty(10):
        keeper.read(line, database.waiting[line.gates][:5], 5)
    for place, line in reversed(keeper.choose(WINDOW)):
        if line.gates == gates("locked"):
            keeper.stayed(line, place, True)
    for line in keeper.empty(10):
        assert line.gates == gates("other")
        keeper.read(line, database.waiting[line.gates][5:10], 5)

    assert [line.gates for _, line in keeper.choose(WINDOW)] == [gates("other")] * 5


def test_the_more_urgent_of_a_tenant_goes_first_and_before_no_other_tenant(database):
    database.enqueue(gates("a"), 100, priority=2)
    database.enqueue(gates("b"), 100, priority=2)
    database.choose()
    database.choose()
    (urgent,) = database.enqueue(gates("a"))

    database.gone.clear()
    went = database.work(2)

    assert Counter(went) == {gates("a"): 1, gates("b"): 1}
    assert (gates("a"), urgent) in database.gone


@pytest.mark.parametrize(
    "text", ["", "[]", "[1]", '[["toll","api","x",1,1]]', '[["limit","api","x",0,1]]', '[["closed","","",1,1]]']
)
def test_jobs_whose_gates_nobody_can_read_wait_and_hold_up_no_other(database, text):
    database.enqueue(text)
    database.enqueue(gates("a"))

    assert database.choose() == [gates("a")]
    assert database.keeper.unreadable == [(QUEUE, text)]
