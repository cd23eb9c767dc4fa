-- what: tells how jobs have ended, whenever that was.
-- called by: awaiting/ends, awaiting/ends_async, joblogs/reading/job_logs, joblogs/reading/job_logs_async: for jobs that live no longer
--       and have not ended just now. $1 ids.
-- index: job_archive_id (block ranges).
-- locks: none.
select id, kind, state, attempt, finalized_at, to_json(errors)::text, output::text, meta::text
from fastq.job_archive
where id = any ($1::bigint[])
