"""`fastq leader` as a user and as a script see it."""

import json

from tests.db.jobs import session
from tests.db.leases import lead


def test_leases_and_chores_are_listed_with_how_late_the_notes_may_be(fastq, on_database, database):
    before = fastq("leader", FASTQ_DATABASE_URL=database)
    assert (before.stdout.splitlines()[-1].split(), before.stderr) == (["leader:default", "nobody", "0"], ""), (
        "no chores, no notes"
    )
    connection = session(database)
    fence = lead(connection, "leader:billing")
    connection.run("chore_note", fence.name, fence.term, ["promote"], [18_000.0], [0.0012], [4], [12], [0], [None])
    connection.close()

    told = fastq("leader", FASTQ_DATABASE_URL=database)

    assert told.stdout.splitlines()[-1].split() == ["leader:billing", "promote", "5h", "ago", "1.2ms", "4", "12", "0"]
    assert told.stderr == "runs that changed nothing are noted within 60s, others within 5s\n"
    (chore,) = json.loads(on_database("leader", "--json"))["chores"]
    assert (chore["name"], chore["runs"], chore["changed"]) == ("promote", 4, 12)
