-- what: the next $5 sheets of the log of job $1, of attempt $4 (null: of all): those that begin at $3 or later in the claims $2, and all
--       of other claims. With the number of the attempt, and whether a sheet is the last of its own.
-- called by: joblogs/reading/job_logs, joblogs/reading/job_logs_async: once, or again and again to follow it.
-- index: job_log_pkey.
-- locks: none.
select claim, attempt, start_at, size, ended, text
from fastq.job_log
where job = $1::bigint and ($4::int is null or attempt = $4::int)
  and not exists (
    select from unnest($2::bigint[], $3::bigint[]) as seen (claim, start_at)
    where seen.claim = job_log.claim and job_log.start_at < seen.start_at
  )
order by attempt, at, start_at
limit $5::bigint
