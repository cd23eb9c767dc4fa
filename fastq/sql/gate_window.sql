-- what: the next $5 jobs that wait in each of some lines, behind the priority and id given, in the order in which they are let go: the
--       number of the line among those given, priority, id.
-- called by: lead/gate/reading. Arrays of one length: $1 queues, $2 gates, $3 priorities, $4 ids.
-- index: job_waiting, a range per line.
-- locks: none; gate_admit looks again.
select array_agg(given.nth), array_agg(found.priority), array_agg(found.id)
from unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[]) with ordinality as given (queue, gates, priority, after, nth)
cross join lateral (
    select job.priority::smallint as priority, job.id
    from fastq.job
    where job.queue = given.queue and job.waits_for = given.gates and (job.priority, job.id) > (given.priority, given.after)
    order by job.priority, job.id
    limit $5::bigint
) as found
