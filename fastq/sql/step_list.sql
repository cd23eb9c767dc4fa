-- what: the records of a job, oldest first: sort, name, attempt, when it was written, how many seconds the step took, until when it
--       sleeps or waits, and how many seconds these are from now, the output as JSON.
-- called by: steps/attempt, steps/remembered, enqueue/operate/signalling, enqueue/operate/signalling_async, cli/waits/signals: when a
--            job with records comes to its first step (remembered answers it in a test), and to show them. $1 id.
-- index: job_step_pkey.
-- locks: none.
select sort, name, attempt, at, took, until, extract(epoch from (until - clock_timestamp()))::float8, output::text
from fastq.job_step
where job = $1::bigint
order by at, sort, name
