"""Any graph of steps ends as its edges say: by direct statements, with a new steward at every turn."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastq import Args, Client
from fastq.lead.workflow.steward import Steward
from tests import flows
from tests.db.jobs import CHANNEL, ERROR, claim, claim_number
from tests.db.leases import site_on
from tests.flows import CANCELLED, COMPLETED, DISCARDED

MINE = claim_number(1, 1)
CALLED = "select args ->> 'event' from fastq.job_archive where kind = 'called' and meta #>> '{workflow,0}' = $1"


@dataclass
class Do(Args, kind="do"):
    place: int


@dataclass
class Called(Args, kind="called"):
    event: str


@st.composite
def graphs(draw):
    """Draw a graph, how each of its jobs ends if it runs, and by how many they end at once."""
    count = draw(st.integers(1, 14))
    after = [
        draw(st.dictionaries(st.integers(0, place - 1), st.booleans(), max_size=4)) if place else {} for place in range(count)
    ]
    fates = draw(
        st.lists(st.sampled_from([COMPLETED, COMPLETED, COMPLETED, CANCELLED, DISCARDED]), min_size=count, max_size=count)
    )
    return after, fates, draw(st.integers(1, 5))


@pytest.fixture
def site(database):
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


@pytest.fixture
def client(database):
    with Client(database) as made:
        yield made


def lead(site):
    """Run the chore, made anew as by another leader, until there is nothing to do at once."""
    steward = Steward()
    while steward.run(site) == 0.0:
        pass


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs())
def test_any_graph_ends_as_its_edges_say(client, connection, site, drawn):
    after, fates, many = drawn
    callbacks = {event: Called(event) for event in ("on_success", "on_finish", "on_discard")}
    started = client.enqueue_workflow(flows.built("graph", after, Do, **callbacks))
    place_of = {job: place for place, job in enumerate(started.ids)}
    ended, ran = set(), set()

    while jobs := claim(connection, MINE, limit=many):
        places = [place_of.get(job.id) for job in jobs]
        assert all(after[place].keys() <= ended | unrun(after, fates) for place in places if place is not None)
        assert ran.isdisjoint(places)
        ran |= {place for place in places if place is not None}
        states = [COMPLETED if place is None else fates[place] for place in places]
        errors = [ERROR if state == DISCARDED else None for state in states]
        connection.run("job_finish", [job.id for job in jobs], [MINE] * len(jobs), states, errors, [None] * len(jobs), CHANNEL)
        ended |= ran
        lead(site)

    right = flows.ends(after, fates)
    assert [step.state for step in client.workflow_steps(started.id)] == right
    assert ran == flows.runs(after, right)
    called = [event for (event,) in connection.execute(CALLED, str(started.id))]
    assert sorted(called) == sorted(flows.called(right))
    assert client.workflow(started.id).ended_at is not None
    assert site.write("workflow_audit", 0, -1, 1_000)[-1] is None


def unrun(after, fates):
    """Return the steps whose jobs never run: they end without being claimed."""
    return {*range(len(after))} - flows.runs(after, flows.ends(after, fates))
