-- what: the running jobs of some processes whose cancellation was asked for, each with its process.
-- called by: registrar: after each beat. $1 ids of processes.
-- index: job_cancel_requested.
-- locks: none.
select id, claim >> 32
from fastq.job
where cancel_requested and state = 'running' and claim >> 32 = any ($1::bigint[])
