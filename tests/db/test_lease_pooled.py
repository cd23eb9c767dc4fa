"""The lease through PgBouncer in transaction mode: the same tests, over sessions that everybody shares and nobody may set up."""

from contextlib import suppress

import pytest

from fastq import Config, Lease
from fastq.errors import DatabaseUnavailable
from fastq.leases.elector import Candidacy, Elector
from tests.db.jobs import session
from tests.db.test_lease import (  # noqa: F401 - collected here once more, with the fixtures of this file
    test_a_holder_that_was_asked_to_resign_gives_the_lease_up_at_its_next_renewal,
    test_acquiring_takes_over_from_a_holder_that_died_when_its_ttl_is_over,
)
from tests.db.test_lease_acquire import (  # noqa: F401 - collected here once more, with the fixtures of this file
    KINDS,
    prepare,
    racing,
    test_a_candidate_does_not_wait_for_a_lease_that_somebody_has_locked,
    test_a_candidate_that_sees_a_stale_row_which_is_being_renewed_loses,
    test_a_row_that_vanished_makes_the_holder_lose_and_is_made_again_with_a_higher_term,
    test_acquiring_is_not_renewing,
)
from tests.db.test_lease_renew import (  # noqa: F401 - collected here once more, with the fixtures of this file
    test_a_lease_that_ran_out_cannot_be_renewed_although_nobody_took_it,
    test_a_user_is_told_whether_releasing_freed_it,
    test_after_a_takeover_renewing_fails_and_a_fenced_statement_does_nothing,
    test_many_leases_are_renewed_at_once_each_for_itself,
    test_nobody_else_and_no_other_term_can_renew,
    test_releasing_an_old_term_does_not_free_the_new_one_of_the_same_holder,
    test_releasing_frees_at_once_and_only_what_is_ours,
    test_renewing_prolongs_by_the_ttl_from_now_and_keeps_the_term,
)
from tests.db.test_lease_trust import (  # noqa: F401 - collected here once more, with the fixtures of this file
    test_a_candidates_wall_clock_changes_nothing,
    test_a_server_clock_that_was_set_back_does_not_cost_a_living_holder_its_lease,
    test_a_server_clock_that_was_set_back_does_not_keep_a_dead_holders_lease_alive,
    test_a_server_clock_that_was_set_forward_ends_the_term_before_another_begins,
    test_the_term_grows_although_an_older_copy_of_the_row_came_back,
    test_trust_is_kept_on_a_clock_that_goes_on_while_the_machine_is_suspended,
)
from tests.helpers import execute, wait_for
from tests.pgbouncer import leftovers, pgbouncer

pytestmark = [pytest.mark.lease("L30"), pytest.mark.process]
ROUNDS = 50


@pytest.fixture
def pooled(database, tmp_path):
    """Give the URL of the test's database through a pooler."""
    with pgbouncer(database, tmp_path) as through:
        yield through


@pytest.fixture
def connection(pooled):
    """Give a session as the runtime opens it there."""
    opened = session(pooled, pinned=False, prepare=False)
    yield opened
    opened.close()


@pytest.fixture
def other(pooled):
    """Give another one."""
    opened = session(pooled, pinned=False, prepare=False)
    yield opened
    opened.close()


@pytest.fixture
def make(pooled):
    """Give a function that makes a user's lease."""
    made = []

    def lease_of(name="report", ttl=1.0):
        made.append(Lease(name, config=Config(database_url=pooled, poll_only=True), ttl=ttl))
        return made[-1]

    yield lease_of
    for one in made:
        with suppress(DatabaseUnavailable):
            one.close()


@pytest.mark.lease("L01", "L02", "L05")
def test_of_processes_that_race_through_a_pooler_one_wins_and_nothing_stays_in_its_sessions(database, pooled):
    with racing(pooled, "unpinned") as race:
        won = {kind: [len(race(name)) for name in prepare(database, kind, ROUNDS)] for kind in KINDS}

    assert won == {"free": [1] * ROUNDS, "stale": [1] * ROUNDS, "missing": [1] * ROUNDS, "fresh": [0] * ROUNDS}
    assert leftovers(pooled) == set()


@pytest.mark.lease("L13", "L44")
def test_electors_behind_a_pooler_lead_one_after_the_other(database, pooled):
    config = Config(database_url=pooled, poll_only=True, poll_interval=0.1, lease_ttl=10.0)
    said = [[], []]
    electors = []
    for heard in said:
        candidacy = Candidacy(
            "leader:x", lambda *_, heard=heard: heard.append("begin"), lambda _, why, heard=heard: heard.append(why)
        )
        electors.append(Elector(config, pooled, [candidacy]))
    for elector in electors:
        elector.start()
    wait_for(lambda: said[0] or said[1])
    first, second = (0, 1) if said[0] else (1, 0)
    electors[first].stop()
    wait_for(lambda: said[second] == ["begin"], 5.0)
    electors[second].stop()
    wait_for(lambda: all(elector.ended for elector in electors))

    assert said[first] == said[second] == ["begin", "stop"]
    assert execute(database, "select count(*) from fastq.lease where holder <> ''") == [(0,)]
    assert leftovers(pooled) == set()
