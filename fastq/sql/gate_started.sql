-- what: those of the jobs $1, which were let go at rates, that wait for no process any more: their ids, and how many seconds ago they were
--       claimed; of one that does not run now nobody knows, so it was just now.
-- called by: lead/gate/gatekeeper: soon after it has let jobs go.
-- index: job_pkey.
-- locks: none.
select coalesce(array_agg(given.id), '{}'),
    coalesce(array_agg(case when job.state = 'running' then greatest(extract(epoch from clock_timestamp() - job.attempted_at)::float8, 0) else 0 end), '{}')
from unnest($1::bigint[]) as given (id)
left join fastq.job on job.id = given.id
where job.id is null or not (job.state = 'available' or starts_with(coalesce(job.waits_for, ''), 'worker:'))
