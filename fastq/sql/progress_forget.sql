-- what: looks at $5 notes of progress, after the one of job $4, and deletes those older than $6 seconds whose jobs live no longer. Says
--       the last one's job, at how many it looked, and how many went.
-- called by: lead/chores/forget: it walks through the table so. $1-$3 fence.
-- index: job_progress_pkey; job_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select job, noted_at from fastq.job_progress
    where exists (select from held) and job > $4::bigint
    order by job
    limit $5::bigint
), gone as (
    delete from fastq.job_progress using looked
    where job_progress.job = looked.job and job_progress.noted_at = looked.noted_at
      and looked.noted_at < (clock_timestamp() - ($6::float8 * interval '1 second'))
      and not exists (select from fastq.job where job.id = looked.job)
    returning 1
)
select (select count(*) from held), (select coalesce(max(job), 0) from looked), (select count(*) from looked), (select count(*) from gone)
