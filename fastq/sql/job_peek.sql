-- what: which of the queues $1 have something available, each after its cursor, by their places in the list, from 1 on; and whether the
--       queue is paused. Locked rows count, as in job_first_available: the claim that has a row locked may fail.
-- called by: work/cursor/peeks: in place of a look at each queue. $2-$5 cursors of priority 1-4 (exclusive), one for each queue.
-- index: job_ready, one range per queue and priority.
-- locks: none.
select asked.place, exists (
    select from fastq.queue where queue.name = any (array[asked.queue, '*']) and queue.paused_at is not null
)
from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) with ordinality as asked (queue, one, two, three, four, place)
where exists (select from fastq.job where job.queue = asked.queue and job.priority = 1 and job.seq > asked.one and job.state = 'available')
   or exists (select from fastq.job where job.queue = asked.queue and job.priority = 2 and job.seq > asked.two and job.state = 'available')
   or exists (select from fastq.job where job.queue = asked.queue and job.priority = 3 and job.seq > asked.three and job.state = 'available')
   or exists (select from fastq.job where job.queue = asked.queue and job.priority = 4 and job.seq > asked.four and job.state = 'available')
