-- what: which of the queues $1 have jobs that wait for a worker, by their places in the list, from 1 on.
-- called by: work/cursor/peeks: in place of a look at the waiting jobs of each queue.
-- index: job_waiting, one range per queue.
-- locks: none.
select asked.place
from unnest($1::text[]) with ordinality as asked (queue, place)
where exists (
    select from fastq.job where job.queue = asked.queue and job.waits_for >= 'worker:' and job.waits_for < 'worker;'
)
