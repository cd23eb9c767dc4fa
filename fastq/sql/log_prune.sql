-- what: deletes up to $5 sheets of job logs that were written at $4 or later, and $6 days ago or earlier, the oldest first. Says the time
--       of the last one, and how many went.
-- called by: lead/chores/forget: it goes on from there. $1-$3 fence.
-- index: job_log_at; job_log_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), old as materialized (
    select job, claim, start_at, at
    from fastq.job_log
    where exists (select from held) and at >= $4::timestamptz
      and at <= (statement_timestamp() - ($6::float8 * interval '1 day'))
    order by at
    limit $5::bigint
), gone as (
    delete from fastq.job_log using old
    where job_log.job = old.job and job_log.claim = old.claim and job_log.start_at = old.start_at
    returning 1
)
select (select count(*) from held), (select max(at) from old), (select count(*) from gone)
