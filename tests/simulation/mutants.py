"""The cursor with one of its rules broken, a mutant for each rule: what the simulation must find, to be worth anything.

A mutant is the name of the broken rule, and a function that puts something else in place of a piece of the code while it lives.
Rules that are for promptness alone are not here: without them jobs come late, and the re-scan finds them. They say so where they
stand.
"""

from contextlib import contextmanager

import pytest

from fastq import board
from fastq.work.claim.unanswered import Unanswered
from fastq.work.cursor import low_water
from fastq.work.cursor.cursor import Cursor
from fastq.work.cursor.low_water import LowWater
from fastq.work.cursor.rescan import Rescan
from tests.simulation.server import PRIORITIES, Server, Session

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
def low_follows_the_frontier_at_once(patch):
    def move(cursor, connection, now):
        for low, front in zip(board.LOW, board.FRONTIER, strict=True):
            cursor._words[low] = cursor._words[front]

    patch.setattr(LowWater, "_move_low", move)
    patch.setattr(LowWater, "_mark_due", lambda cursor, now: True)


@mutant
def nobody_asks_who_still_writes(patch):
    patch.setattr(LowWater, "_still_written", lambda cursor, connection: False)


@mutant
def the_writers_are_asked_once(patch):
    asks = LowWater._still_written

    def ask(cursor, connection):
        asked = cursor._words[board.BARRIER_XID]
        return not asked and asks(cursor, connection)

    patch.setattr(LowWater, "_still_written", ask)


@mutant
def the_writers_of_the_mark_before_are_asked_for(patch):
    moves = LowWater._move_low

    def move(cursor, connection, now):
        xid = cursor._words[board.BARRIER_XID]
        moves(cursor, connection, now)
        cursor._words[board.BARRIER_XID] = cursor._words[board.BARRIER_XID] or xid

    patch.setattr(LowWater, "_move_low", move)


@mutant
def a_forgotten_transaction_counts_as_a_writer(patch):
    def ask(cursor, connection):
        oldest, following = connection.run_one("snapshot")
        cursor._words[board.BARRIER_XID] = cursor._words[board.BARRIER_XID] or following
        return oldest < cursor._words[board.BARRIER_XID]

    patch.setattr(LowWater, "_still_written", ask)


@mutant
def inserts_that_a_trigger_holds_up_are_forgotten(patch):
    patch.setattr(Server, "begun", lambda server: [])


@mutant
def the_lag_is_shorter_than_numbers_are_held(patch):
    patch.setattr(low_water, "LAG", 0.1)
    patch.setattr(low_water, "RETRY", 0.05)


@mutant
def low_moves_to_the_mark_without_a_look(patch):
    moves = LowWater._move_low

    def move(cursor, connection, now):
        words = cursor._words
        noted = words[board.BARRIER_AT]
        moves(cursor, connection, now)
        if noted and not words[board.BARRIER_AT]:
            for low, mark in zip(board.LOW, board.MARK, strict=True):
                words[low] = max(words[low], words[mark])

    patch.setattr(LowWater, "_move_low", move)


@mutant
def the_look_passes_over_locked_rows(patch):
    runs = Session.run_one

    def run(session, name, *params):
        answer = runs(session, name, *params)
        locked = session._server.locked if name == "job_first_available" else ()
        return tuple(None if one in locked else one for one in answer) if locked else answer

    patch.setattr(Session, "run_one", run)


@mutant
def low_moves_onto_what_the_look_found(patch):
    runs = Session.run_one

    def run(session, name, *params):
        answer = runs(session, name, *params)
        return tuple(one and one + 1 for one in answer) if name == "job_first_available" else answer

    patch.setattr(Session, "run_one", run)


@mutant
def nobody_looks_behind_the_frontier(patch):
    patch.setattr(Rescan, "_rescan_due", lambda cursor, now, interval: False)


@mutant
def the_re_scan_begins_at_the_mark(patch):
    scans = Rescan._rescan

    def scan(cursor, *args):
        words = cursor._words
        lows = [words[at] for at in board.LOW]
        if not words[board.RESCANNING]:
            for low, mark in zip(board.LOW, board.MARK, strict=True):
                words[low] = max(words[low], words[mark])
        try:
            return scans(cursor, *args)
        finally:
            for at, low in zip(board.LOW, lows, strict=True):
                words[at] = low

    patch.setattr(Rescan, "_rescan", scan)
    patch.setattr(Cursor, "_at_once", lambda cursor, now: False)


@mutant
def the_re_scan_ends_before_the_last_priority(patch):
    claims = Rescan._claim

    def claim(cursor, connection, number, after, upto, limit):
        if after is board.RESCAN:
            upto = [*upto[: PRIORITIES - 1], 0]
        return claims(cursor, connection, number, after, upto, limit)

    patch.setattr(Rescan, "_claim", claim)
    patch.setattr(Cursor, "_at_once", lambda cursor, now: False)


@mutant
def parts_reach_beyond_the_highest_number(patch):
    takes = Cursor.take_part

    def take(cursor, limit):
        cursor._words[board.TOP] += 1_000 if cursor._words[board.TOP] else 0
        return takes(cursor, limit)

    patch.setattr(Cursor, "take_part", take)


@mutant
def a_claim_without_an_answer_is_forgotten(patch):
    patch.setattr(Unanswered, "settle", lambda unanswered, connection: None)


@mutant
def a_claim_without_an_answer_is_looked_for_ahead_of_the_frontier(patch):
    patch.setattr(Cursor, "lowest", lambda cursor: min(cursor._words[at] for at in board.FRONTIER[:1]))


@mutant
def nobody_notices_that_numbers_went_back(patch):
    patch.setattr(Cursor, "_check", lambda cursor, connection, now: None)
