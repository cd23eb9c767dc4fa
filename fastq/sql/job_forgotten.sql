-- what: those of the jobs $1 that the process $2 runs according to the table, with the columns that are needed to end their
--       attempt.
-- called by: work/claim/forgotten: for jobs that the process does not hold.
-- index: job_pkey.
-- locks: none; the statement that writes the end of the attempt looks at the claim again.
select id, claim, attempt, max_attempts, kind::text, cancel_requested
from fastq.job
where id = any ($1::bigint[]) and state = 'running' and claim >> 32 = $2::bigint
