"""A workflow as text: lanes for the edges, rows for the steps, and large ones folded until they fit on a screen."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastq import Args
from fastq.workflows import lanes
from fastq.workflows.drawing import IN_ASCII, MOST, counted, drawn
from fastq.workflows.folding import DrawnStep, foldings
from fastq.workflows.plan import plan_of
from fastq.workflows.steps import Workflow, chain, group


@dataclass
class DoArgs(Args, kind="do"):
    label: str


FETCH, PARSE, STORE, TELL = map(DoArgs, ["fetch", "parse", "store", "tell"])


def steps_of(flow, *states):
    """Return the steps of a workflow as a drawing takes them; the states are those of the first ones, the others wait."""
    told = dict(enumerate(states))
    return [
        DrawnStep(step.name, step.item.label, 100 + place, told.get(place, "waiting"), step.after)
        for place, step in enumerate(plan_of(flow).steps)
    ]


def test_steps_one_after_the_other_are_rows_one_below_the_other():
    assert drawn(steps_of(chain(FETCH, PARSE, TELL), "completed", "running")) == [
        "●  fetch  completed, job 100",
        "▶  parse  running, job 101",
        "○  tell   waiting, job 102",
    ]


def test_steps_beside_each_other_have_lanes_of_their_own():
    assert drawn(
        steps_of(chain(FETCH, group(chain(PARSE, STORE), STORE, TELL), TELL), "completed", "discarded", "cancelled")
    ) == [
        "●      fetch  completed, job 100",
        "├─┬─╮",
        "✗ │ │  parse  discarded, job 101",
        "✗ │ │  store  cancelled, job 102",
        "│ ○ │  store  waiting, job 103",
        "│ │ ○  tell   waiting, job 104",
        "├─┴─╯",
        "○      tell   waiting, job 105",
    ]


def test_an_edge_that_passes_others_crosses_their_lanes():
    flow = Workflow("crossed")
    a, b = flow.add(FETCH, name="a"), flow.add(FETCH, name="b")
    c, d = flow.add(PARSE, name="c", after=[a, b]), flow.add(PARSE, name="d", after=a)
    flow.add(TELL, name="e", after=[c, d.ended])

    assert drawn(steps_of(flow)) == [
        "○      a  waiting, job 100",
        "├─╮",
        "│ │ ○  b  waiting, job 101",
        "├─│─╯",
        "○ │    c  waiting, job 102",
        "│ ○    d  waiting, job 103",
        "├─╯",
        "○      e  waiting, job 104; however d ends",
    ]


def test_in_ascii_it_has_signs_that_every_terminal_has():
    text = "\n".join(drawn(steps_of(chain(FETCH, group(PARSE, STORE), group(*[TELL] * 100)))))

    assert not text.isascii()
    assert text.translate(IN_ASCII).isascii()


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (
            chain(FETCH, group(*[PARSE] * 9_998), TELL),
            ["●  fetch          completed, job 100", "○  parse (9,998)  9,998 waiting", "○  tell           waiting, job 10099"],
        ),
        (
            chain(FETCH, group(*(chain(PARSE, STORE) for _ in range(5_000)))),
            ["●  fetch          completed, job 100", "○  parse (5,000)  5,000 waiting", "○  store (5,000)  5,000 waiting"],
        ),
        (
            chain(*[PARSE] * 10_000),
            ["○  parse (10,000)  1 completed, 9,999 waiting; one after the other"],
        ),
        (
            group(*(chain(*[PARSE] * 100) for _ in range(100))),
            ["○  parse (10,000)  1 completed, 9,999 waiting; in 100 lines of 100"],
        ),
        (
            chain(*[PARSE, STORE] * 5_000),
            ["○  parse (5,000)  1 completed, 4,999 waiting", "○  store (5,000)  5,000 waiting",
             "(too many different steps to draw: these are the kinds)"],
        ),
    ],
)  # fmt: skip
def test_ten_thousand_steps_are_folded(flow, expected):
    assert drawn(steps_of(flow, "completed")) == expected


def test_a_row_of_several_tells_of_the_worst():
    steps = steps_of(chain(FETCH, group(*[PARSE] * 50)), "completed", "completed", "running", "discarded", "retryable")

    assert drawn(steps)[1] == "✗  parse (50)  1 completed, 1 running, 1 retryable, 46 waiting, 1 discarded"


def test_what_names_begin_with_stands_for_them():
    flow = Workflow("import")
    fetch = flow.add(FETCH, name="fetch")
    flow.add(TELL, after=[flow.add(PARSE, name=f"part-{number}", after=fetch).ended for number in range(60)])

    assert drawn(steps_of(flow))[1:] == ["○  part-… (60)  60 waiting", "○  tell         waiting, job 161; however part-… ends"]


def test_where_lanes_would_be_too_many_a_step_names_those_before_it():
    flow = Workflow("wide")
    parts = [flow.add(DoArgs(f"part-{number}")) for number in range(20)]
    flow.add(TELL, name="tell", after=[*parts, parts[0].ended])
    flow.add(TELL, name="log", after=[parts[0].ended, parts[1]])

    assert drawn(steps_of(flow), 60)[-2:] == [
        "○  tell     waiting, job 120; after part-0, part-1, part-2,…",
        "○  log      waiting, job 121; after part-1; however part-0 …",
    ]


def test_states_are_told_in_the_order_of_a_job_s_life():
    assert counted(Counter(discarded=1, waiting=2_000, completed=3, odd=1)) == "3 completed, 2,000 waiting, 1 discarded, 1 odd"


KINDS = st.sampled_from(["fetch", "parse", "store"])
STATES = st.sampled_from(["completed", "running", "available", "waiting", "discarded"])


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 60))
    after = [
        draw(st.dictionaries(st.integers(0, place - 1), st.booleans(), max_size=3)) if place else {} for place in range(count)
    ]
    return [DrawnStep(None, draw(KINDS), 100 + place, draw(STATES), [*edges.items()]) for place, edges in enumerate(after)]


@settings(max_examples=50)
@given(graphs(), st.integers(20, 120))
def test_any_graph_is_drawn_within_the_width(steps, width):
    lines = drawn(steps, width)

    assert max(map(len, lines)) <= max(width, 24)
    assert len(lines) <= 3 * MOST


@settings(max_examples=50)
@given(graphs())
def test_foldings_keep_every_step_and_every_edge(steps):
    for folding in foldings(steps, MOST):
        node_of = {place: number for number, node in enumerate(folding.nodes) for place in node.steps}
        assert sorted(place for node in folding.nodes for place in node.steps) == list(range(len(steps)))
        edges = {(node_of[parent], node_of[place]) for place, step in enumerate(steps) for parent, _ in step.after}
        found = {(parent, number) for number, node in enumerate(folding.nodes) for parent in node.after}
        if folding.lanes:
            assert found == {(parent, child) for parent, child in edges if parent != child}
            assert all(parent < child for parent, child in found)


@settings(max_examples=50)
@given(graphs())
def test_each_node_has_a_row_and_lanes_end_with_the_last_node_that_they_lead_to(steps):
    children = [[] for _ in steps]
    for place, step in enumerate(steps):
        for parent, _ in step.after:
            children[parent].append(place)
    rows = list(lanes.rows(children))

    assert [number for _, number in rows if number is not None] == list(range(len(steps)))
    assert all((text.count(lanes.NODE) == 1) == (number is not None) for text, number in rows)
    assert rows[-1][0].strip() == lanes.NODE
