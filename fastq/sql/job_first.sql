-- what: the job that a claim would take first: id, kind, priority, seq. Locked ones count: it may be locked by a claim that fails.
-- called by: work/cursor/claims: when a claim of a single job was refused. $1 queue, $2-$5 cursor of priority 1-4 (exclusive), $6-$9 upper end of
--            seq by priority (inclusive), $10 ids that are passed over.
-- index: job_ready, one range per priority.
-- locks: none.
select pick.id, pick.kind, range.priority, pick.seq
from (values (1::smallint, $2::bigint, $6::bigint), (2, $3::bigint, $7::bigint), (3, $4::bigint, $8::bigint),
    (4, $5::bigint, $9::bigint)) as range (priority, after, upto)
cross join lateral (
    select job.id, job.kind, job.seq
    from fastq.job
    where job.queue = $1::text and job.priority = range.priority and job.seq > range.after and job.seq <= range.upto
      and job.state = 'available' and job.id <> all ($10::bigint[])
    order by job.seq
    limit 1
) as pick
limit 1
