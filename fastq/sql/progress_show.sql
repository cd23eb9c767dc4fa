-- what: tells how far a job is. $1 id.
-- called by: awaiting/results, awaiting/results_async.
-- index: job_progress_pkey.
-- locks: none.
select fraction, text, attempt, noted_at from fastq.job_progress where job = $1::bigint
