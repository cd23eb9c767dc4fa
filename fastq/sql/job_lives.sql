-- what: says whether a job has not ended yet. $1 id.
-- called by: joblogs/reading/job_logs, joblogs/reading/job_logs_async: while somebody follows its log.
-- index: job_pkey.
-- locks: none.
select exists (select from fastq.job where id = $1::bigint)
