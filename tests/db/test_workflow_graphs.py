"""Any graph of steps ends as its edges say, through gates and retries: by direct statements, with new leaders at every turn."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastq import Args, Client, Limit, Ordered, admin
from fastq.events import subscribe
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.workflow.steward import Steward
from tests import flows
from tests.db.jobs import CHANNEL, ERROR, claim, claim_number
from tests.db.leases import run_until, site_on
from tests.flows import CANCELLED, COMPLETED, DISCARDED

pytestmark = pytest.mark.further

MINE = claim_number(1, 1)
ENDS = (COMPLETED, CANCELLED, DISCARDED)
CALLED = "select args ->> 'event' from fastq.job_archive where kind = 'called' and meta #>> '{workflow,0}' = $1"
TABLES = ["job", "gate_event", "gate_permit", "workflow", "workflow_step", "workflow_edge", "workflow_event"]
LEFT = f"truncate {', '.join(f'fastq.{table}' for table in TABLES)}"
"""Remove what an example that has failed may have left."""

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Do(Args, kind="do"):
    key: int = 0


@dataclass
class Few(Args, kind="few", gates=[Limit("few", at_most=2, by="key")]):
    key: int


@dataclass
class Next(Args, kind="next", gates=[Ordered("next", by="key")]):
    key: int


@dataclass
class Held(Args, kind="held", gates=[Ordered("held", by="key", when_discarded="hold")]):
    key: int


@dataclass
class Called(Args, kind="called"):
    event: str


AT_ONCE = {Few: 2, Next: 1, Held: 1}
"""How many of these may run at once, of each key."""


@dataclass
class Drawn:
    """A graph; for each of its places the job, and how that ends if it runs; how many of them end at once."""

    after: flows.After
    items: list[Args]
    fates: list[str]
    many: int


PLAIN = st.builds(Do)
FATES = st.sampled_from([COMPLETED, COMPLETED, COMPLETED, CANCELLED, DISCARDED])
GATED = st.one_of(PLAIN, *(st.builds(kind, st.integers(0, 1)) for kind in AT_ONCE))


@st.composite
def graphs(draw, least=1, most=14, items=PLAIN):
    """Draw a graph."""
    count = draw(st.integers(least, most))
    after = [
        draw(st.dictionaries(st.integers(0, place - 1), st.booleans(), max_size=4)) if place else {} for place in range(count)
    ]
    each = {"min_size": count, "max_size": count}
    return Drawn(after, draw(st.lists(items, **each)), draw(st.lists(FATES, **each)), draw(st.integers(1, 5)))


@dataclass
class Retry:
    """A retry: after how many turns, and of what; of each place how its job ends then, and whether it fails once before."""

    turns: int
    what: str
    fates: list[str]
    flaky: list[bool]


RETRIES = st.builds(
    Retry,
    st.integers(1, 12),
    st.sampled_from(["failed", "failed_and_downstream"]),
    st.lists(FATES, min_size=14, max_size=14),
    st.lists(st.booleans(), min_size=14, max_size=14),
)


@pytest.fixture
def site(database):
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


@pytest.fixture
def client(database):
    with Client(database) as made:
        yield made


@pytest.fixture
def told():
    """Give the events of this process: the leaders report each repair as a bug."""
    heard = []
    unsubscribe = subscribe(heard.append)
    yield heard
    unsubscribe()


class Flow:
    """A workflow that was enqueued, and what must become of it."""

    def __init__(self, client, connection, site, drawn):
        self.client, self.connection, self.site, self.drawn = client, connection, site, drawn
        self.fates, self.kept, self.flaky = list(drawn.fates), {}, set()
        self.ran, self.let_go, self.called = set(), set(), set()
        connection.execute(LEFT)
        callbacks = {event: Called(event) for event in ("on_success", "on_finish", "on_discard")}
        started = client.enqueue_workflow(flows.built("graph", drawn.after, drawn.items.__getitem__, **callbacks))
        self.id, self.place_of = started.id, {job: place for place, job in enumerate(started.ids)}
        self.lead()

    def lead(self):
        """Run the chores, made anew as by other leaders, until there is nothing to do at once; read all states."""
        run_until(Steward(), self.site, lambda rest: rest > 0.0)
        run_until(Gatekeeper(), self.site, lambda rest: rest >= 1.0)
        self.steps = self.client.workflow_steps(self.id)
        self.ended = {step.step: step.state for step in self.steps if step.state in ENDS}

    def work(self, turns=None):
        """Claim jobs and end them, so many times, or as long as there are any; tell whether there were."""
        while turns != 0 and (jobs := claim(self.connection, MINE, limit=self.drawn.many)):
            places = [place for job in jobs if (place := self.place_of.get(job.id)) is not None]
            self.may_run(places)
            fail = [job.id for job in jobs if self.place_of.get(job.id) in self.flaky]
            self.connection.run("job_retry", fail, *([one] * len(fail) for one in (MINE, 0.0, True, ERROR)), CHANNEL)
            done = [job.id for job in jobs if job.id not in fail]
            states = [self.fates[self.place_of[job]] if job in self.place_of else COMPLETED for job in done]
            errors = [ERROR if state == DISCARDED else None for state in states]
            self.connection.run("job_finish", done, [MINE] * len(done), states, errors, [None] * len(done), CHANNEL)
            self.ran |= {*places} - self.flaky
            self.flaky -= {*places}
            self.lead()
            turns = None if turns is None else turns - 1
        return turns == 0

    def may_run(self, places):
        """Assert that the jobs of these places may run now, beside each other."""
        assert self.ran.isdisjoint(places)
        assert all(self.drawn.after[place].keys() <= self.ended.keys() for place in places if place not in self.let_go)
        for item, count in Counter(map(repr, (self.drawn.items[place] for place in places))).items():
            kind = next(kind for kind in (Do, *AT_ONCE) if item.startswith(kind.__name__))
            assert count <= AT_ONCE.get(kind, count)

    def look(self):
        """Assert that the steps that have ended have done so as they must; note which callbacks are due by now."""
        right = flows.ends(self.drawn.after, self.fates, self.kept)
        assert self.ended.items() <= dict(enumerate(right)).items()
        if len(self.ended) == len(right):
            self.called |= flows.called(right)
        elif DISCARDED in self.ended.values():
            self.called.add("on_discard")
        assert self.site.write("workflow_audit", 0, -1, 1_000)[-1] is None

    def retry(self, retry):
        """Retry it; say what must become of it then. A step that no longer waits does not wait again for a retried parent."""
        failed = [step for step in self.steps if step.state in (CANCELLED, DISCARDED)]
        again = {step.step for step in failed if not step.because or retry.what != "failed"}
        after = self.drawn.after
        self.let_go |= {place for place in range(len(after)) if after[place].keys() <= self.ended.keys()}
        self.let_go -= self.ended.keys()
        self.kept = {place: state for place, state in self.ended.items() if place not in again}
        for place in again:
            self.fates[place] = retry.fates[place]
        self.flaky |= {place for place in again if retry.flaky[place]}
        self.ran -= again
        assert self.client.retry_workflow(self.id, retry.what) == len(again)
        self.lead()

    def release(self):
        """Have no discarded job hold its key."""
        held = admin.list_held(self.connection)
        assert {self.ended[self.place_of[row.job]] for row in held} == {DISCARDED}
        for row in held:
            admin.release_held(self.connection, row.gate, int(row.key))
        self.lead()

    def finish(self):
        """Work until all has ended; assert that each step and each callback is right."""
        self.work()
        while len(self.ended) < len(self.steps):
            self.look()
            self.release()
            self.work()
        self.look()
        called = [event for (event,) in self.connection.execute(CALLED, str(self.id))]
        assert sorted(called) == sorted(self.called)
        assert self.client.workflow(self.id).ended_at is not None
        assert {row.job for row in admin.list_held(self.connection)} <= {*self.place_of}
        for row in admin.list_held(self.connection):
            admin.release_held(self.connection, row.gate, int(row.key))
        assert self.connection.execute("select * from fastq.gate_permit") == []


@settings(QUIET, max_examples=20)
@given(graphs())
def test_any_graph_ends_as_its_edges_say(client, connection, site, drawn):
    flow = Flow(client, connection, site, drawn)

    flow.finish()

    assert flow.ran == flows.runs(drawn.after, flows.ends(drawn.after, drawn.fates))


@settings(QUIET, max_examples=2)
@given(graphs(least=100, most=200))
def test_a_graph_of_some_hundred_steps_does(client, connection, site, drawn):
    drawn.many *= 20
    flow = Flow(client, connection, site, drawn)

    flow.finish()

    assert flow.ran == flows.runs(drawn.after, flows.ends(drawn.after, drawn.fates))


@pytest.mark.timeout(600)  # s; eight on a machine that has nothing else to do
@settings(QUIET, max_examples=30)
@given(graphs(items=GATED), st.lists(RETRIES, max_size=3))
def test_any_graph_of_steps_with_gates_that_is_retried_ends_as_its_edges_say(client, connection, site, told, drawn, retries):
    told.clear()
    flow = Flow(client, connection, site, drawn)

    for retry in retries:
        flow.work(retry.turns)
        flow.look()
        flow.retry(retry)

    flow.finish()
    assert [str(event) for event in told if event.name.endswith(".repaired")] == []
