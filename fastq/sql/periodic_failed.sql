-- what: notes why a tick could not be enqueued. Answers with whether the term holds.
-- called by: lead/chores/periodic. $1-$3 fence, $4 name, $5 hash, $6 reason.
-- index: lease_pkey; periodic_pkey.
-- locks: the schedule's row; a locked one is skipped. The lease's row, for key share.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), failed as (
    update fastq.periodic set error = $6::text
    where name in (
        select name from fastq.periodic
        where name = $4::text and hash = $5::text and exists (select from held)
        for no key update skip locked
    )
    returning name
)
select (select count(*) from held), (select count(*) from failed)
