-- what: the running jobs of some processes that are to be cancelled, each with its process.
-- called by: host/registrar: after each beat while a job executes, and on a hint. $1 ids of processes.
-- index: job_cancel_requested.
-- locks: none.
select id, claim >> 32
from fastq.job
where cancel_requested and state = 'running' and claim >> 32 = any ($1::bigint[])
