-- what: writes down that an index was built anew just now, in $5 seconds, or was not, for the reason $6.
-- called by: lead/chores/reindex. $1-$3 fence, $4 index.
-- index: chore_pkey; lease_pkey.
-- locks: the lease's row, for key share; the row.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), noted as (
    insert into fastq.chore (lease, name, term, ran_at, took, runs, error)
    select $1::text, 'reindex ' || $4::text, $3::bigint, clock_timestamp(), $5::float8, 1, $6::text
    where exists (select from held)
    on conflict (lease, name) do update
    set term = excluded.term, ran_at = excluded.ran_at, took = excluded.took, runs = chore.runs + 1, error = excluded.error
    returning 1
)
select (select count(*) from held), (select count(*) from noted)
