-- what: writes down when chores ran last, how long they took and with which result. If a later term has written already, only the
--       number of statements that came too late is added.
-- called by: lead/term/term: now and then. $1 lease, $2 term. Arrays: $3 names, $4 seconds ago, $5 seconds taken, $6 runs in this
--            term, $7 rows changed in this term, $8 statements that came too late since the last note, $9 errors.
-- index: chore_pkey.
-- locks: the rows.
insert into fastq.chore (lease, name, term, ran_at, took, runs, changed, fenced, error)
select $1::text, name, $2::bigint, clock_timestamp() - make_interval(secs => ago), took, runs, changed, fenced, error
from unnest($3::text[], $4::float8[], $5::float8[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[])
    as ran (name, ago, took, runs, changed, fenced, error)
on conflict (lease, name) do update
set (term, ran_at, took, runs, changed, error) = (
        select latest.term, latest.ran_at, latest.took, latest.runs, latest.changed, latest.error
        from (values
            (excluded.term, excluded.ran_at, excluded.took, excluded.runs, excluded.changed, excluded.error, 1),
            (chore.term, chore.ran_at, chore.took, chore.runs, chore.changed, chore.error, 2)
        ) as latest (term, ran_at, took, runs, changed, error, nth)
        order by latest.term desc, latest.nth
        limit 1
    ),
    fenced = chore.fenced + excluded.fenced
where chore.term <= excluded.term or excluded.fenced > 0
