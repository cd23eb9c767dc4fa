-- what: the living jobs in order that were let go and wait for their next attempt while others wait behind them, up to $1, the oldest
--       ids first: job, queue, gates, kind, state, the time at which the last attempt began, and for which the next one is due.
-- called by: admin/held: to list the keys that stand still.
-- index: job_pkey; job_waiting: the first entry of a line. The permits are read from end to end.
-- locks: none.
select admitted.job, admitted.queue, admitted.gates, rests.kind, rests.state, rests.attempted_at, rests.scheduled_at
from (
    select gate_permit.job, gate_permit.queue::text as queue, gate_permit.gates::text as gates
    from fastq.gate_permit
    where starts_with(gate_permit.gates, '[["order')
) as admitted
cross join lateral (
    select job.kind::text as kind, job.state::text as state, job.attempted_at, job.scheduled_at
    from fastq.job
    where job.id = admitted.job and job.state = any ('{scheduled,retryable}'::fastq.state[])
    limit 1
) as rests
where exists (
    select from fastq.job as behind
    where behind.queue = admitted.queue and behind.waits_for = admitted.gates and behind.id <> admitted.job
)
order by admitted.job
limit $1::bigint
