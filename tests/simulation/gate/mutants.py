"""The gatekeeper with one of its rules broken, a mutant for each rule: what the simulation must find, to be worth anything.

A mutant is the name of the broken rule, and a function that puts something else in place of a piece of the code, or of what the
model answers to a statement, while it lives.
"""

import math
from contextlib import contextmanager

import pytest

from fastq.lead.gate import gatekeeper, keeper
from fastq.lead.gate.gate_log import Log
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.gate.keeper import Keeper
from fastq.lead.gate.keys import Gate, Key, job_of
from fastq.lead.gate.rates import RateGate, RateKey
from fastq.lead.gate.reading import Lines, Windows
from fastq.lead.gate.rounds import FairGate, Tenant
from fastq.lead.gate.starts import Starts
from tests.simulation.gate import world
from tests.simulation.gate.server import Server

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


def around(patch, owner, name, call):
    """Have `call(method, self, ...)` stand for a method."""
    method = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *args: call(method, self, *args))


# the log


@mutant
def events_are_read_twice(patch):
    def read(method, log, site):
        events, more = method(log, site)
        return events + events[:1], more

    around(patch, Log, "read", read)


@mutant
def nobody_asks_who_still_writes(patch):
    patch.setattr(Server, "gate_writers", lambda server: ([],))


@mutant
def the_writers_are_asked_once(patch):
    def ask(method, log, site, now):
        log._writers = None if log._writers is None else set()
        method(log, site, now)

    around(patch, Log, "_ask", ask)


@mutant
def the_writers_are_asked_after_the_read(patch):
    asks = Log._ask
    patch.setattr(Log, "_ask", lambda log, site, now: None)

    def read(method, log, site):
        answer = method(log, site)
        if log.whole:
            asks(log, site, log._again_at)
            log._low = log._ended
        return answer

    around(patch, Log, "read", read)


@mutant
def the_log_is_not_read_again(patch):
    def read(method, log, site):
        log._again_at = math.inf
        return method(log, site)

    around(patch, Log, "read", read)


@mutant
def nobody_comes_back_for_late_events(patch):
    patch.setattr(Log, "due", lambda log: math.inf)


@mutant
def an_old_term_may_read(patch):
    def read(method, server, name, holder, term, *params):
        return method(server, name, holder, server.term, *params)

    around(patch, Server, "gate_read", read)


@mutant
def a_term_begins_with_the_events_before_it(patch):
    def begin(method, server, *fence):
        events = list(server.events)
        answer = method(server, *fence)
        server.events = events
        return answer

    around(patch, Server, "gate_begin", begin)


# the chore


@mutant
def an_old_term_may_let_jobs_go(patch):
    def admit(method, server, name, holder, term, *params):
        return method(server, name, holder, server.term, *params)

    around(patch, Server, "gate_admit", admit)


@mutant
def the_memory_is_kept_after_a_failed_statement(patch):
    patch.setattr(Gatekeeper, "run", lambda gate, site: gate._run(site))


@mutant
def a_term_begins_with_nobody_admitted(patch):
    around(patch, Log, "begin", lambda method, log, site: method(log, site)._replace(admitted=[]))


@mutant
def only_the_first_lines_are_listed(patch):
    def page(method, lines, site):
        found = method(lines, site)
        lines._behind = None
        return found

    around(patch, Lines, "read", page)


@mutant
def a_page_that_took_too_long_is_the_last_one(patch):
    def page(method, lines, site):
        behind = lines._behind
        found = method(lines, site)
        if lines._behind == behind:
            lines._behind = None
        return found

    around(patch, Lines, "read", page)


@mutant
def windows_that_took_too_long_are_forgotten(patch):
    def once(method, windows, site, keeper):
        keeper.again = lambda queue, gates: None
        try:
            return method(windows, site, keeper)
        finally:
            del keeper.again

    around(patch, Windows, "read", once)


@mutant
def jobs_that_come_while_lines_are_listed_go_first(patch):
    patch.setattr(Keeper, "knows_lines", property(lambda known: True, lambda known, value: None), raising=False)


@mutant
def jobs_that_were_locked_are_not_tried_again(patch):
    patch.setattr(Gatekeeper, "_try_locked", lambda gate, keeper: gate._locked.clear())


@mutant
def jobs_that_were_locked_are_passed_over(patch):
    around(patch, Keeper, "stayed", lambda method, known, line, place, _: method(known, line, place, False))


@mutant
def what_a_comparison_finds_is_told_at_once(patch):
    def page(method, gate, site, known):
        method(gate, site, known)
        for queue, gates in gate._unheard:
            gatekeeper.emit("gate.repaired", queue=queue, gates=gates)

    around(patch, Gatekeeper, "_list_lines", page)


@mutant
def locked_jobs_are_tried_again_at_once(patch):
    def stayed(method, known, line, place, locked):
        waits = line in known._empty
        method(known, line, place, locked)
        if waits:
            known._empty[line] = None

    around(patch, Keeper, "stayed", stayed)


@mutant
def nobody_looks_where_a_comparison_has_made_room(patch):
    def compare(method, gate, site, known):
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Keeper, "_list", lambda known, key: None)
            method(gate, site, known)

    around(patch, Gatekeeper, "_compare", compare)


# the keeper


@mutant
def places_before_the_end_of_the_window_are_ignored(patch):
    def came(method, known, queue, gates, jobs, place):
        line = known.lines.get(queue, {}).get(gates)
        end = 0 if line is None else line.after or max(line.waiting, default=0)
        if place > end:
            method(known, queue, gates, jobs, place)

    around(patch, Keeper, "came", came)


@mutant
def many_that_come_at_once_count_as_one(patch):
    around(patch, Keeper, "came", lambda method, known, queue, gates, jobs, place: method(known, queue, gates, 1, place))


@mutant
def empty_windows_are_not_read(patch):
    patch.setattr(Keeper, "empty", lambda known, most: [])


@mutant
def windows_grow_with_each_that_comes(patch):
    patch.setitem(world.SMALL, (keeper, "LARGEST_WINDOW"), 10**9)

    def read(method, known, line, places, asked):
        method(known, line, places, asked)
        line.window = min(line.window, 4)

    around(patch, Keeper, "read", read)


@mutant
def windows_are_read_from_behind_the_first(patch):
    def empty(method, known, most):
        lines = method(known, most)
        for line in lines:
            line.after += 1
        return lines

    around(patch, Keeper, "empty", empty)


@mutant
def the_room_of_a_job_that_stayed_is_not_given_back(patch):
    patch.setattr(Key, "stayed", lambda key, line, weight: None)


@mutant
def only_one_key_is_looked_at(patch):
    def choose(method, known, key, chosen, most):
        rooms = Key.has_room
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Key, "has_room", lambda other, weight: other is not key or rooms(other, weight))
            method(known, key, chosen, most)

    around(patch, Keeper, "_choose_at", choose)


@mutant
def a_heavy_job_does_not_go_alone(patch):
    patch.setattr(Key, "has_room", lambda key, weight: key.taken + weight <= key.gate.at_most)


@mutant
def a_heavy_job_goes_beside_others(patch):
    patch.setattr(
        Key, "has_room", lambda key, weight: key.taken + min(weight, key.gate.at_most - key.taken or 1) <= key.gate.at_most
    )


@mutant
def a_number_of_zero_lets_jobs_go(patch):
    patch.setattr(Key, "has_room", lambda key, weight: key.taken == 0 or key.taken + weight <= key.gate.at_most)


@mutant
def a_key_with_new_room_is_not_looked_at(patch):
    def give_back(method, known, line, jobs):
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Keeper, "_list", lambda known, key: None)
            method(known, line, jobs)

    around(patch, Keeper, "_give_back", give_back)


@mutant
def nobody_looks_when_a_number_was_raised(patch):
    def values(method, known, values):
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Keeper, "_list", lambda known, key: None)
            method(known, values)

    around(patch, Keeper, "values", values)


@mutant
def a_second_line_takes_the_place_of_the_first(patch):
    def put(key, line):
        line.stands, key.standing = key, line

    patch.setattr(Key, "put", put)


@mutant
def nothing_is_forgotten(patch):
    patch.setattr(Keeper, "_forget", lambda known, line: None)


@mutant
def lines_are_forgotten_while_their_jobs_run(patch):
    def freed(method, known, queue, gates, jobs):
        line = known.lines.get(queue, {}).get(gates)
        if line is not None and line.admitted > jobs and not line.waits():
            known._give_back(line, line.admitted)
            known._forget(line)
        else:
            method(known, queue, gates, jobs)

    around(patch, Keeper, "freed", freed)


@mutant
def a_paused_key_is_let_go_on(patch):
    patch.setattr(Key, "is_paused", lambda key: False)


@mutant
def nobody_looks_when_a_key_was_resumed(patch):
    def pauses(method, known, paused):
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Keeper, "_list", lambda known, key: None)
            method(known, paused)

    around(patch, Keeper, "pauses", pauses)


# the rates; tests/db/test_rates.py shows that a debt is known to the next term, which too few schedules here need


@mutant
def a_job_counts_as_started_when_it_is_let_go(patch):
    def take(method, key, weight):
        method(key, weight)
        key.taken -= weight

    around(patch, RateKey, "take", take)
    patch.setattr(RateKey, "started", lambda key, weight, at: None)
    patch.setattr(RateKey, "stayed", lambda key, line, weight: None)
    patch.setattr(RateKey, "goes_yet", lambda key, weight: None)


@mutant
def the_bucket_fills_up_beside_jobs_that_have_not_started(patch):
    def started(key, weight, at):
        key.taken -= weight

    patch.setattr(RateKey, "started", started)


@mutant
def jobs_of_the_term_before_count_as_started(patch):
    patch.setattr(Keeper, "goes_yet", lambda known, queue, gates, job: None)


@mutant
def a_term_begins_with_full_buckets(patch):
    def init(method, key, gate, name):
        method(key, gate, name)
        key.full_at = gate.starts.born

    around(patch, RateKey, "__init__", init)


@mutant
def keys_are_forgotten_while_their_buckets_fill_up(patch):
    patch.setattr(RateKey, "unused", lambda key: not key.taken)


@mutant
def a_key_that_is_held_up_lets_jobs_go(patch):
    def spend(method, key, weight, until):
        method(key, weight, -math.inf)

    around(patch, RateKey, "spend", spend)


@mutant
def nobody_comes_back_when_a_bucket_has_filled_up(patch):
    patch.setattr(Starts, "look", lambda starts, key, at: None)


@mutant
def nobody_asks_who_has_started(patch):
    def to_ask(starts):
        starts._ask_at = math.inf
        return []

    patch.setattr(Starts, "to_ask", to_ask)


@mutant
def the_answer_is_taken_for_the_time_of_the_admission(patch):
    def answered(method, starts, asked, ages):
        return method(starts, asked, dict.fromkeys(ages, 1.0))

    around(patch, Starts, "answered", answered)


@mutant
def a_job_that_is_let_go_again_has_never_started(patch):
    def take(method, known, line):
        known.starts.unstarted.pop(job_of(line.waiting[0]), None)
        method(known, line)

    around(patch, Keeper, "_take", take)


@mutant
def a_bucket_is_deeper_than_it_is(patch):
    def obey(method, gate, values):
        changed = method(gate, values)
        gate.depth += gate.interval if changed else 0
        return changed

    around(patch, RateGate, "obey", obey)


@mutant
def jobs_are_dropped_that_found_room(patch):
    patch.setattr(RateKey, "has_room", lambda key, weight: not key.gate.drops and has_room(key, weight))


@mutant
def a_job_that_stayed_has_spent_its_share(patch):
    patch.setattr(RateKey, "stayed", lambda key, line, weight: None)


has_room = RateKey.has_room


# other sorts of gates


@mutant
def each_tenant_has_a_window_of_its_own(patch):
    patch.setattr(Tenant, "has_room", lambda tenant, weight: not tenant.is_paused())


@mutant
def the_room_of_a_tenant_is_not_given_back(patch):
    patch.setattr(Tenant, "give", lambda tenant, weight: None)


@mutant
def a_tenant_that_was_paused_takes_no_part_again(patch):
    resume = Tenant.resume
    patch.setattr(Tenant, "resume", lambda tenant: None if tenant.is_paused() or tenant.taken else resume(tenant))

    def pauses(method, known, paused):
        tenants = [key for gate in known.gates.values() for key in gate.keys.values() if isinstance(key, Tenant)]
        for tenant in tenants:
            tenant.taken = 1  # no tenant uses it: a mark
        method(known, paused)
        for tenant in tenants:
            tenant.taken = 0

    around(patch, Keeper, "pauses", pauses)


@mutant
def a_paused_tenant_holds_up_the_others(patch):
    head = FairGate.head

    def held_up(gate):
        paused, gate.paused = gate.paused, ()
        try:
            return head(gate)
        finally:
            gate.paused = paused

    patch.setattr(FairGate, "head", held_up)


@mutant
def an_operator_may_set_more_than_one_for_jobs_in_order(patch):
    def tell(method, gate, entry):
        changed = method(gate, entry)
        gate.highest = None
        return changed

    around(patch, Gate, "tell", tell)
