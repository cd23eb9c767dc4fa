-- what: the last $2 ticks of the periodic job $1 that were enqueued, newest first: tick, job, and how that is or has ended. The state is null of a
--       job that is kept no longer.
-- called by: admin/periodic: list_ticks. $1 name, $2 how many.
-- index: periodic_tick_pkey, backwards; job_pkey; job_archive_id (block ranges), first of the two days after a tick, in which nearly each job
--        ends, and then of those since. An aggregate has it done tick by tick: joined to all of them, the archive would be read from end to end.
-- locks: none.
select last.tick, last.job_id as job, coalesce(living.state, soon.state, late.state)::text as state,
    coalesce(living.attempted_at, soon.attempted_at, late.attempted_at) as attempted_at, coalesce(soon.finalized_at, late.finalized_at) as finalized_at
from (
    select tick, job_id from fastq.periodic_tick where name = $1::text order by tick desc limit $2::bigint
) as last
left join fastq.job as living on living.id = last.job_id
left join lateral (
    select (array_agg(job_archive.state))[1] as state, (array_agg(job_archive.attempted_at))[1] as attempted_at,
        max(job_archive.finalized_at) as finalized_at
    from fastq.job_archive
    where living.id is null and job_archive.id = last.job_id
      and job_archive.finalized_at >= (last.tick - interval '1 hour') and job_archive.finalized_at < (last.tick + interval '2 days')
) as soon on true
left join lateral (
    select (array_agg(job_archive.state))[1] as state, (array_agg(job_archive.attempted_at))[1] as attempted_at,
        max(job_archive.finalized_at) as finalized_at
    from fastq.job_archive
    where living.id is null and soon.state is null and job_archive.id = last.job_id
      and job_archive.finalized_at >= (last.tick + interval '2 days')
) as late on true
order by last.tick desc
