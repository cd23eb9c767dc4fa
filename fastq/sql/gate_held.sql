-- what: the discarded jobs that hold their keys at gates, up to $1, the oldest ids first: job, queue, gates, kind, the time at which it
--       was discarded, and the seconds since then. The last three are null when retention has removed the job from the archive.
-- called by: admin/held, lead/gate/holds: to list them, and to find those of a key; to report them.
-- index: job_pkey; dead_pkey: the archive would be asked day by day for each. The permits are read from end to end.
-- locks: none.
select held.job, held.queue, held.gates, ended.kind, ended.finalized_at,
    extract(epoch from (clock_timestamp() - ended.finalized_at))::float8 as age
from (
    select gate_permit.job, gate_permit.queue::text as queue, gate_permit.gates::text as gates
    from fastq.gate_permit
    where starts_with(gate_permit.gates, '[["order-hold"') and not exists (select from fastq.job where job.id = gate_permit.job)
    order by gate_permit.job
    limit $1::bigint
) as held
left join fastq.dead as ended on ended.id = held.job
order by held.job
