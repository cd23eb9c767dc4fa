"""The cursor with one of its rules broken, a mutant for each rule: what the simulation must find, to be worth anything.

A mutant is the name of the broken rule, and a function that puts something else in place of a piece of the code while it lives.
Rules that are for promptness alone are not here: without them jobs come late, and the re-scan finds them. They say so where they
stand.
"""

from contextlib import contextmanager

import pytest

from fastq.work.claim.unanswered import Unanswered
from fastq.work.cursor import cursor, looks, low_water
from fastq.work.cursor.cursor import Backlog, Cursor
from fastq.work.cursor.looks import Rescan
from fastq.work.cursor.low_water import LowWater
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
    def begin(mark, now):
        mark._words.low[:] = mark._words.frontier

    patch.setattr(LowWater, "begin", begin)
    for module in (cursor, looks):
        patch.setattr(module, "marks_due", lambda words, now: True)


@mutant
def nobody_asks_who_still_writes(patch):
    patch.setattr(LowWater, "ask", lambda mark, oldest, following: mark._look())


@mutant
def the_writers_are_asked_once(patch):
    asks = LowWater.ask

    def ask(mark, oldest, following):
        return mark._look() if mark._words.mark_xid else asks(mark, oldest, following)

    patch.setattr(LowWater, "ask", ask)


@mutant
def the_writers_of_the_mark_before_are_asked_for(patch):
    notes = LowWater.note

    def note(mark, now):
        xid = mark._words.mark_xid
        notes(mark, now)
        mark._words.mark_xid = xid

    patch.setattr(LowWater, "note", note)


@mutant
def a_forgotten_transaction_counts_as_a_writer(patch):
    patch.setattr(Server, "writers", lambda server, xid, _: any(0 < one.xid < xid for one in server.open))


@mutant
def inserts_that_a_trigger_holds_up_are_forgotten(patch):
    patch.setattr(Server, "begun", lambda server: [])


@mutant
def marks_move_without_the_turn(patch):
    patch.setattr(Cursor, "waited_in_vain", property(lambda cursor: False, lambda cursor, value: None), raising=False)


@mutant
def the_lag_is_shorter_than_numbers_are_held(patch):
    patch.setattr(low_water, "LAG", 0.1)
    patch.setattr(low_water, "RETRY", 0.05)


@mutant
def low_moves_to_the_mark_without_a_look(patch):
    moves = LowWater.move
    patch.setattr(LowWater, "move", lambda mark, first: moves(mark, [None] * PRIORITIES))


@mutant
def low_moves_onto_what_the_look_found(patch):
    moves = LowWater.move
    patch.setattr(LowWater, "move", lambda mark, first: moves(mark, [one and one + 1 for one in first]))


@mutant
def the_look_passes_over_locked_rows(patch):
    looks = Session._job_first_available

    def look(session, *params):
        return [tuple(None if one in session._server.locked else one for one in row) for row in looks(session, *params)]

    patch.setattr(Session, "_job_first_available", look)


@mutant
def nobody_looks_behind_the_frontier(patch):
    patch.setattr(Rescan, "due", lambda rescan, now: False)


def pass_begins_otherwise(patch, change):
    """Have each pass begin with other marks; no claim is one in passing."""
    begins = Rescan.begin

    def begin(rescan, now, **options):
        goes_on = rescan._words.rescanning
        began = begins(rescan, now, **options)
        if began and not goes_on:
            change(rescan._words)
        return began

    patch.setattr(Rescan, "begin", begin)
    patch.setattr(Rescan, "short", lambda rescan, now: False)


@mutant
def the_re_scan_begins_at_the_mark(patch):
    def change(words):
        for at in range(PRIORITIES):
            words.rescan[at] = min(words.rescan_end[at], max(words.rescan[at], words.mark[at]))

    pass_begins_otherwise(patch, change)


@mutant
def the_re_scan_ends_before_the_last_priority(patch):
    def change(words):
        words.rescan_end[-1] = words.rescan[-1]

    pass_begins_otherwise(patch, change)


@mutant
def parts_reach_beyond_the_highest_number(patch):
    takes = Backlog.take

    def take(parts, *args):
        parts._words.top += 1_000 if parts._words.top else 0
        return takes(parts, *args)

    patch.setattr(Backlog, "take", take)


@mutant
def a_claim_without_an_answer_is_forgotten(patch):
    patch.setattr(Unanswered, "settle", lambda unanswered, connection: None)


@mutant
def a_claim_without_an_answer_is_looked_for_ahead_of_the_frontier(patch):
    patch.setattr(Rescan, "lowest", lambda rescan: rescan._words.frontier[0])


@mutant
def nobody_notices_that_numbers_went_back(patch):
    patch.setattr(Cursor, "start_over", lambda cursor, reached, last: None)
