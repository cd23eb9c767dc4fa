-- what: looks at $7 records of steps, after the one of job $4, sort $5 and name $6. Those of jobs that neither live nor are dead
--       letters, which may be retried for long, learn that they are gone; those that have been gone for more than $8 seconds are
--       deleted, if no record of the same job is newer in that. Those of jobs that live again are gone no more. Says the last one's job,
--       sort and name, at how many it looked, and how many were deleted.
-- called by: lead/chores/forget: it walks through the table so. $1-$3 fence.
-- index: job_step_pkey; job_pkey; dead_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it changes or deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select job, sort, name, gone_at from fastq.job_step
    where exists (select from held) and (job, sort, name) > ($4::bigint, $5::text, $6::text)
    order by job, sort, name
    limit $7::bigint
), ended as materialized (
    select looked.* from looked
    where not exists (select from fastq.job where id = looked.job)
      and not exists (select from fastq.dead where dead.id = looked.job)
), left_now as (
    update fastq.job_step
    set gone_at = clock_timestamp()
    from ended
    where job_step.job = ended.job and job_step.sort = ended.sort and job_step.name = ended.name and ended.gone_at is null
), back as (
    update fastq.job_step
    set gone_at = null
    from looked
    where job_step.job = looked.job and job_step.sort = looked.sort and job_step.name = looked.name and looked.gone_at is not null
      and exists (select from fastq.job where id = looked.job)
), gone as (
    delete from fastq.job_step using ended
    where job_step.job = ended.job and job_step.sort = ended.sort and job_step.name = ended.name
      and ended.gone_at < (clock_timestamp() - ($8::float8 * interval '1 second'))
      and not exists (
          select from fastq.job_step as other
          where other.job = ended.job and coalesce(other.gone_at >= (clock_timestamp() - ($8::float8 * interval '1 second')), true))
    returning 1
)
select (select count(*) from held), coalesce(last.job, 0), coalesce(last.sort, ''), coalesce(last.name, ''),
    (select count(*) from looked), (select count(*) from gone)
from (select) as one
left join (select job, sort, name from looked order by job desc, sort desc, name desc limit 1) as last on true
