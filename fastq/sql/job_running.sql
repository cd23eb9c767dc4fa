-- what: the jobs that run, those that began first on top, $2 at most: id, kind, queue, attempt, max_attempts, tags, the time at which the attempt began,
--       whether its end was asked for, the number of its process with that one's host and pid (null: its row is gone), and the newest
--       note of its progress: a fraction and a text. Of each queue and priority the first $1 jobs are looked at (with many queues less: $3 over
--       all of them, and 50 at least): those that run were the first to come.
-- called by: admin/running/hosts: list_running.
-- index: job_ready, skipped from queue to queue, and its beginning in each; process_pkey; job_progress_pkey.
-- locks: none.
with recursive every (queue) as (
    (select queue from fastq.job where seq is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where seq is not null and queue > every.queue order by queue limit 1)
    from every where every.queue is not null
), bound (most) as materialized (
    select greatest(least(50, $1::bigint), least($1::bigint, $3::bigint / greatest(1, 4 * count(queue)))) from every
)
select job.id, job.kind, job.queue, job.attempt, job.max_attempts, job.tags, job.attempted_at, job.cancel_requested,
    (job.claim >> 32) as process, process.host, process.pid, job_progress.fraction, job_progress.text
from every
cross join unnest('{1,2,3,4}'::smallint[]) as given (priority)
cross join lateral (
    select id, kind, queue, attempt, max_attempts, tags, attempted_at, cancel_requested, claim
    from (
        select * from fastq.job
        where job.queue = every.queue and job.priority = given.priority and job.seq is not null
        order by job.seq
        limit (select most from bound)
    ) as first
    where first.state = 'running'
) as job
left join fastq.process on process.id = (job.claim >> 32)
left join fastq.job_progress on job_progress.job = job.id
order by job.attempted_at, job.id
limit $2::bigint
