"""What a worker may say of its isolation, and what the processes of isolated jobs say to each other."""

import types
from dataclasses import dataclass

import pytest

from fastq import Args, Isolate, Job, Registry, Worker
from fastq.errors import OptionError, RegistryError
from fastq.isolate import LEAST_MEMORY, isolation_of
from fastq.jobs.outcome import Fate, State
from fastq.work.isolated.wire import Noted, Order, Pieces, Settled, message_of, order_of, packed


@dataclass
class AloneArgs(Args, kind="alone_in_a_test"):
    """Nothing."""


def worker(**attributes):
    """Return a class of workers with these attributes."""
    body = {"work": lambda self, job: None, **attributes}
    return types.new_class("AloneWorker", (Worker[AloneArgs],), {}, lambda namespace: namespace.update(body))


def test_an_isolated_worker_has_the_mode_whatever_the_form_of_its_work():
    class AwaitingWorker(Worker[AloneArgs]):
        isolate = True

        async def work(self, job: Job[AloneArgs]) -> None:
            """Do nothing."""

    registry, other = Registry(), Registry()
    registry.register(worker(isolate=Isolate(memory=LEAST_MEMORY)))
    other.register(AwaitingWorker)

    assert [(one.mode, one.is_async) for one in registry.workers.values()] == [("isolated", False)]
    assert [(one.mode, one.is_async) for one in other.workers.values()] == [("isolated", True)]


def test_a_function_is_isolated_by_an_option():
    registry = Registry()

    @registry.worker(isolate=Isolate(memory=2**30))
    def do(job: Job[AloneArgs]) -> None:
        """Do nothing."""

    assert registry.workers["alone_in_a_test"].isolate == Isolate(2**30)
    assert registry.workers["alone_in_a_test"].mode == "isolated"


@pytest.mark.parametrize("given", ["yes", 1, None, Isolate])
def test_any_other_value_is_refused_when_the_worker_is_registered(given):
    with pytest.raises(RegistryError, match=r"AloneWorker\.isolate: expected True, False or Isolate\(memory=\.\.\.\), got "):
        Registry().register(worker(isolate=given))


@pytest.mark.parametrize("memory", ["512M", True, 0, LEAST_MEMORY - 1, 1e9])
def test_a_limit_is_a_number_of_bytes_that_leaves_room_for_python(memory):
    with pytest.raises(OptionError, match=r"expected a whole number of bytes, 16777216 at least, such as 512 \* 2\*\*20"):
        Isolate(memory=memory)


@pytest.mark.parametrize("name", ["isolated", "subprocess", "isolat"])
def test_a_slip_of_the_name_is_told_of(name):
    with pytest.raises(RegistryError, match="did you mean isolate"):
        Registry().register(worker(**{name: True}))


def test_no_isolation_is_none():
    assert (isolation_of(False), isolation_of(True), isolation_of(Isolate())) == (None, Isolate(), Isolate())


def test_messages_come_whole_whatever_the_pieces_are():
    messages = [Noted(0.5, "half"), Settled(Fate(State.DISCARDED, error='{"error": "x"}', cause="crashed")), Settled(Fate())]
    sent = b"".join(map(packed, messages))

    for size in (1, 3, 7, 64, len(sent)):
        pieces = Pieces()
        came = [text for at in range(0, len(sent), size) for text in pieces.add(sent[at : at + size])]
        assert list(map(message_of, came)) == messages


def test_a_piece_of_a_message_of_a_process_that_was_killed_is_no_message():
    pieces = Pieces()

    assert list(pieces.add(packed(Noted(0.5, "half"))[:-1])) == []


def test_an_order_says_why_a_job_is_to_end():
    order = Order(late=True, text="took longer than 1 s")
    (text,) = Pieces().add(packed(order))

    assert order_of(text) == order
