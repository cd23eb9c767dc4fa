-- what: the last $2 ticks of the periodic job $1 that were enqueued, newest first: tick, job, and how that is or has ended. The state is null of a
--       job that is kept no longer.
-- called by: admin/periodic: list_ticks. $1 name, $2 how many.
-- index: periodic_tick_pkey, backwards; job_pkey; job_archive_id (block ranges).
-- locks: none.
select last.tick, last.job_id as job, coalesce(living.state, ended.state)::text as state, coalesce(living.attempted_at, ended.attempted_at) as attempted_at,
    ended.finalized_at
from (
    select tick, job_id from fastq.periodic_tick where name = $1::text order by tick desc limit $2::bigint
) as last
left join fastq.job as living on living.id = last.job_id
left join lateral (
    select job_archive.state, job_archive.attempted_at, job_archive.finalized_at from fastq.job_archive where job_archive.id = last.job_id
) as ended on true
order by last.tick desc
