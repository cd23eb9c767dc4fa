"""The looks at all queues at once with one of their rules broken: what the simulation of several queues must find.

What numbers that went back without a lost connection mean, and a lost connection, tests/db/test_peeks.py shows.
"""

from contextlib import contextmanager

import pytest

from fastq.work.cursor import peeks
from fastq.work.cursor.low_water import LowWater
from fastq.work.cursor.peeks import Calm, Peek, Peeks
from tests.simulation.server import PRIORITIES, Session

MUTANTS = {}


def mutant(break_):
    """Keep a way to break a rule under the rule's name."""
    MUTANTS[break_.__name__.replace("_", "-")] = break_
    return break_


@contextmanager
def living(name):
    """Let a mutant live for a while."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield


@mutant
def nobody_peeks(patch):
    patch.setattr(Peeks, "due", lambda peeks: False)


@mutant
def the_calm_follows_the_last_number_at_once(patch):
    learns = Peek._learn_found

    def learn(peek, found):
        learns(peek, found)
        if not found:
            peek._words.low[:] = peek._words.frontier

    patch.setattr(Peek, "_learn_found", learn)


@mutant
def nobody_asks_who_still_writes(patch):
    patch.setattr(Calm, "ask", lambda calm, oldest, following: calm._look())


@mutant
def the_calm_moves_though_not_all_queues_were_asked(patch):
    learns = Peek._learn_found

    def learn(peek, found):
        asked = peek._asked
        learns(peek, found)
        if peek._proves and not found and asked:
            peek._words.low[:] = peek._words.mark

    patch.setattr(Peek, "_learn_found", learn)


@mutant
def the_calm_moves_though_something_was_found(patch):
    moves = Calm.move if "move" in vars(Calm) else LowWater.move
    patch.setattr(Calm, "move", lambda calm, first: moves(calm, [None] * PRIORITIES), raising=False)


@mutant
def marks_move_beyond_what_was_proved(patch):
    settles = peeks._settle
    patch.setattr(peeks, "_settle", lambda cursor, upto: settles(cursor, 2**62))


@mutant
def marks_move_where_something_was_found(patch):
    learns = Peek._learn_found

    def learn(peek, found):
        if peek._proves:
            for cursor in peek._asked:
                peeks._settle(cursor, peek._words.mark[0])
        learns(peek, found)

    patch.setattr(Peek, "_learn_found", learn)


@mutant
def the_question_passes_over_locked_rows(patch):
    asks = Session._job_peek

    def ask(session, queues, *lows):
        server = session._server
        kept = server._available
        server._available = [[[seq for seq in seqs if seq not in server.locked] for seqs in of_queue] for of_queue in kept]
        try:
            return asks(session, queues, *lows)
        finally:
            server._available = kept

    patch.setattr(Session, "_job_peek", ask)
