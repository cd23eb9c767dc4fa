-- what: asks a worker process for stacks: that of job $2, in the process that runs it, or, where that is null, those of process $1. Answers
--       with the request (null: there is none, for the job does not run, or the process is gone), the job's state (null: it does not live, or
--       none is meant), and the process: its number, host, pid, and whether it lives.
-- called by: admin/running/whereabouts: when somebody asks. $3 channel (null: no hint).
-- index: job_pkey; process_pkey.
-- locks: none but the new row.
with meant as (
    select job.id as job, job.state::text as state, case when job.state = 'running' then (job.claim >> 32) end as process
    from (select 1) as one
    left join fastq.job on job.id = $2::bigint
    where $2::bigint is not null
    union all
    select null, null, $1::bigint where $2::bigint is null
), found as (
    select meant.job, meant.state, meant.process, process.host, process.pid, process.expires_at > clock_timestamp() as lives
    from meant
    left join fastq.process on process.id = meant.process
), asked as (
    insert into fastq.stack (process, job) select process, job from found where lives returning id
), woken as (
    select count(pg_notify($3::text, '@stack ' || (process::text))) as hints from found where lives and $3::text is not null
)
select (select id from asked), found.state, found.process, found.host, found.pid, coalesce(found.lives, false)
from found
cross join woken
