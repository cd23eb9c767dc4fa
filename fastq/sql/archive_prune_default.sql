-- what: deletes up to $5 finished jobs that no day's partition holds and that ended more than $4 whole days (UTC) before today.
-- called by: lead/chores/partitions: until it answers with less than $5. $1-$3 fence.
-- index: job_archive_default's block ranges of finalized_at, which the caller allows; lease_pkey.
-- locks: the lease's row, for key share; the rows.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as (
    delete from fastq.job_archive_default
    where exists (select from held) and ctid = any (array(
        select ctid from fastq.job_archive_default
        where finalized_at < (date_trunc('day', statement_timestamp() at time zone 'UTC') - make_interval(days => $4::int)) at time zone 'UTC'
        limit $5::bigint
    ))
    returning 1
)
select (select count(*) from held), (select count(*) from old)
