-- what: looks at $7 records of steps, after the one of job $4, sort $5 and name $6, and deletes those older than $8 seconds whose jobs
--       neither live nor are dead letters, which may be retried for long. Says the last one's job, sort and name, at how many it
--       looked, and how many went.
-- called by: lead/chores/forget: it walks through the table so. $1-$3 fence.
-- index: job_step_pkey; job_pkey; dead_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select job, sort, name, at from fastq.job_step
    where exists (select from held) and (job, sort, name) > ($4::bigint, $5::text, $6::text)
    order by job, sort, name
    limit $7::bigint
), gone as (
    delete from fastq.job_step using looked
    where job_step.job = looked.job and job_step.sort = looked.sort and job_step.name = looked.name
      and looked.at < (clock_timestamp() - ($8::float8 * interval '1 second'))
      and not exists (select from fastq.job where job.id = looked.job)
      and not exists (select from fastq.dead where dead.id = looked.job)
    returning 1
)
select (select count(*) from held), coalesce(last.job, 0), coalesce(last.sort, ''), coalesce(last.name, ''),
    (select count(*) from looked), (select count(*) from gone)
from (select) as one
left join (select job, sort, name from looked order by job desc, sort desc, name desc limit 1) as last on true
