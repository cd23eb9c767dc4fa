"""Workflows as they are built, and the plans that come of them: order, edges, names, nesting, and mistakes that are refused."""

from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastq import Args, Enqueue
from fastq.errors import OptionError
from fastq.workflows.plan import MAX_EDGES, plan_of
from fastq.workflows.steps import Ended, Workflow, chain, group


@dataclass
class DoArgs(Args, kind="do"):
    label: str


A, B, C, D, E, F = map(DoArgs, "abcdef")


def edges(flow):
    """Return each job's label with the labels of those that it runs after, `!` behind those whose success it does not need."""
    steps = plan_of(flow).steps
    labels = [step.item.label for step in steps]
    return {step.item.label: {labels[edge.parent] + ("!" if edge.run else "") for edge in step.after} for step in steps}


def test_a_step_runs_after_the_steps_that_it_names():
    flow = Workflow("import")
    a = flow.add(A, name="fetch")
    b = flow.add(B, after=a)
    flow.add(C, after=[a, b.ended])

    assert edges(flow) == {"a": set(), "b": {"a"}, "c": {"a", "b!"}}
    assert [step.name for step in plan_of(flow).steps] == ["fetch", None, None]
    assert plan_of(flow).name == "import"


def test_a_job_with_options_stays_as_it_is():
    item = Enqueue(A, priority=2)

    assert plan_of(chain(item)).steps[0].item is item


def test_one_job_is_a_workflow_of_its_own():
    assert edges(A) == {"a": set()}


def test_callbacks_are_jobs_by_event():
    flow = Workflow("mails", on_success=A, on_finish=Enqueue(B, delay=5), on_discard=C)
    flow.add(D)

    assert list(plan_of(flow).callbacks) == ["on_success", "on_finish", "on_discard"]
    assert plan_of(flow).callbacks["on_success"] is A


def test_of_two_edges_from_one_step_the_one_that_needs_its_success_counts():
    flow = Workflow("twice")
    a = flow.add(A)
    flow.add(B, after=[a.ended, a, a.ended])

    assert edges(flow) == {"a": set(), "b": {"a"}}


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (chain(A, B, C), {"a": set(), "b": {"a"}, "c": {"b"}}),
        (group(A, B), {"a": set(), "b": set()}),
        (chain(A, group(B, C), D), {"a": set(), "b": {"a"}, "c": {"a"}, "d": {"b", "c"}}),
        (chain(group(A, B), group(C, D)), {"a": set(), "b": set(), "c": {"a", "b"}, "d": {"a", "b"}}),
        (group(chain(A, B), chain(C, D)), {"a": set(), "b": {"a"}, "c": set(), "d": {"c"}}),
        (chain(A, group(chain(B, C), D), E), {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"a"}, "e": {"c", "d"}}),
        (chain(A, group(), B), {"a": set(), "b": {"a"}}),
        (chain(group(), A), {"a": set()}),
        (chain(A, group(group(), chain()), B), {"a": set(), "b": {"a"}}),
        (group(A, group()), {"a": set()}),
        (chain(group(), group()), {}),
    ],
)
def test_chains_and_groups_nest_freely(flow, expected):
    assert edges(flow) == expected


def test_what_runs_in_any_case_waits_for_all_jobs_of_a_nested_workflow():
    inner = Workflow("inner")
    inner.add(C, after=[inner.add(A), inner.add(B)])
    outer = Workflow("outer")
    nested = outer.add(inner)
    outer.add(D, after=nested)
    outer.add(E, after=nested.ended)

    assert edges(outer)["d"] == {"c"}
    assert edges(outer)["e"] == {"a!", "b!", "c!"}, "c may be cancelled while b still runs"


def test_an_empty_workflow_hands_on_the_steps_before_it():
    flow = Workflow("outer")
    a = flow.add(A)
    empty = flow.add(group(), after=a.ended)
    flow.add(B, after=empty)
    flow.add(C, after=flow.add(group(), after=a).ended)

    assert edges(flow) == {"a": set(), "b": {"a!"}, "c": {"a!"}}


def test_a_nested_workflow_gives_its_name_to_its_steps():
    def part():
        flow = Workflow("part")
        flow.add(B, after=flow.add(A, name="fetch"))
        return flow

    flow = Workflow("outer")
    eu = flow.add(part(), name="eu")
    flow.add(part(), name="us", after=eu)
    flow.add(part())

    assert [step.name for step in plan_of(flow).steps] == ["eu/fetch", None, "us/fetch", None, "fetch", None]


def test_one_workflow_may_be_two_steps():
    part = chain(A, B)

    assert [step.after for step in plan_of(chain(part, part)).steps] == [(), ((0, False),), ((1, False),), ((2, False),)]


def test_chains_of_chains_may_be_thousands_deep():
    flow = reduce(chain, [A] * 5_000)

    assert [step.after for step in plan_of(flow).steps] == [(), *(((place, False),) for place in range(4_999))]


def named_twice():
    flow = Workflow("import")
    flow.add(A, name="fetch")
    flow.add(B, name="fetch")
    plan_of(flow)


def step_of_another():
    other = Workflow("other")
    Workflow("import").add(A, after=other.add(B, name="b"))


def step_of_itself():
    flow = Workflow("import")
    inner = chain(A)
    flow.add(inner)
    inner.add(flow)
    plan_of(flow)


def nested_with_callbacks():
    inner = Workflow("inner", on_finish=A)
    inner.add(B)
    Workflow("import").add(inner)


def too_many_edges():
    plan_of(chain(group(*[A] * 2_000), group(*[A] * 2_000)))


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (named_twice, "workflow 'import': the name 'fetch' stands there twice"),
        (
            step_of_another,
            r"workflow 'import': step 1: after=<step 'b' of DoArgs\(label='b'\)>: that is a step of another workflow",
        ),
        (step_of_itself, "workflow 'import': it is a step of itself"),
        (nested_with_callbacks, r"step 1: workflow 'inner' has callbacks \(on_finish\), which only the outermost one may have"),
        (too_many_edges, f"workflow 'chain': expected .* {MAX_EDGES:,} edges at most"),
        (lambda: Workflow(""), "workflow '': expected a name like"),
        (lambda: Workflow(3), "workflow 3: expected a name like"),
        (lambda: Workflow("import").add(A, name="a/b"), "workflow 'import': step 'a/b': expected a name like"),
        (
            lambda: Workflow("import").add([A]),
            r"step 1: expected the args of one job, got a list: group\(\*items\) takes several",
        ),
        (lambda: Workflow("import").add(DoArgs), r"got the class DoArgs itself: write DoArgs\(...\)"),
        (lambda: chain(A, None), "workflow 'chain': step 2: expected the args of one job, got a NoneType"),
        (lambda: chain(A, chain().add(B)), "step 2: expected args, got <step of .*>, which is a step already"),
        (lambda: plan_of(chain().add(B)), "expected args, got <step of .*>, which is a step already"),
        (lambda: Workflow("import").add(A, after="fetch"), r"step 1: after='f': expected a step, as add\(\) returns it"),
        (lambda: Workflow("import").add(A, name="x", after=3), r"step 'x': after=3: expected a step, as add\(\) returns it"),
        (lambda: Workflow("import").add(A, after=Ended(A)), "step 1: after=Ended.*: expected a step"),
        (
            lambda: Workflow("mails", on_finish=chain(A)),
            "workflow 'mails': on_finish: expected the args of one job, got a workflow",
        ),
        (lambda: Workflow("mails", on_finish=DoArgs), "workflow 'mails': on_finish: expected args, got the class"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(mistake, told):
    with pytest.raises(OptionError, match=told):
        mistake()


def parents(count):
    """Draw a graph: for each job the earlier ones that it runs after, and whether in any case."""
    return st.tuples(*(st.dictionaries(st.integers(0, place - 1), st.booleans(), max_size=4) if place else st.just({})
                       for place in range(count)))  # fmt: skip


@given(st.integers(1, 30).flatmap(parents))
def test_a_plan_keeps_every_edge_of_any_graph(graph):
    flow, steps = Workflow("graph"), []
    for place, after in enumerate(graph):
        edges = [steps[parent].ended if run else steps[parent] for parent, run in after.items()]
        steps.append(flow.add(DoArgs(str(place)), name=f"s{place}", after=edges))

    assert [dict(step.after) for step in plan_of(flow).steps] == list(graph)


LEAF = st.builds(DoArgs, st.just("x"))
NESTED = st.recursive(
    LEAF,
    lambda inner: st.builds(lambda make, items: make(*items), st.sampled_from([chain, group]), st.lists(inner, max_size=4)),
    max_leaves=25,
)


def meant(item, before):
    """Say, by recursion, which jobs an item adds behind others: its jobs, each with its parents, and its ends."""
    if not isinstance(item, Workflow):
        job = object()
        return {job: before}, {job}
    jobs, ends = {}, set() if item.steps and item.name == "group" else before
    for step in item.steps:
        more, last = meant(step.item, before if item.name == "group" else ends)
        jobs |= more
        ends = ends | last if item.name == "group" else last
    return jobs, ends


@given(NESTED)
def test_nested_chains_and_groups_mean_what_they_say(item):
    jobs, _ = meant(item, set())
    places = {job: place for place, job in enumerate(jobs)}
    steps = plan_of(item).steps

    assert [{edge.parent for edge in step.after} for step in steps] == [
        {places[before] for before in after} for after in jobs.values()
    ]
    assert all(edge.parent < place and not edge.run for place, step in enumerate(steps) for edge in step.after)
