-- what: everything about one job, living or finished, and where it runs if it does. $1 id. JSON comes as text: what drivers make of it differs.
-- called by: admin/jobs, enqueue/client, enqueue/client_async: show and get.
-- index: job_pkey; job_archive_id (block ranges); process_pkey.
-- locks: none.
select job.id, job.state, job.kind, job.queue, job.priority, job.attempt, job.max_attempts, job.tags, job.created_at,
    job.scheduled_at, job.attempted_at, null::timestamptz as finalized_at, job.errors -> -1 ->> 'error' as error, job.waits_for,
    job.args::text as args_json, null::text as output_json, to_json(job.errors)::text as errors, job.crashes, job.cancel_requested,
    process.host, process.pid, job.meta::text as meta
from fastq.job
left join fastq.process on process.id = (job.claim >> 32)
where job.id = $1::bigint
union all
select id, state, kind, queue, priority, attempt, max_attempts, tags, created_at,
    null, attempted_at, finalized_at, errors -> -1 ->> 'error', null,
    args::text, output::text, to_json(errors)::text, crashes, false, null, null,
    meta::text
from fastq.job_archive
where id = $1::bigint
