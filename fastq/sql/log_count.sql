-- what: how many lines of log are kept of job $1, and of how many attempts.
-- called by: cli/jobs: to show them.
-- index: job_log_pkey.
-- locks: none.
select coalesce(sum(lines), 0)::bigint, count(distinct claim)
from fastq.job_log
where job = $1::bigint and lines > 0
