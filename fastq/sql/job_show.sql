-- what: everything about one job, living or finished, and where it runs if it does. $1 id. JSON comes as text: what drivers make of it differs.
-- called by: admin/jobs, enqueue/client, enqueue/client_async: show and get.
-- index: job_pkey; job_archive_id (block ranges), unless it lives: each day is asked; process_pkey; job_progress_pkey.
-- locks: none.
select job.id, job.state, job.kind, job.queue, job.priority, job.attempt, job.max_attempts, job.tags, job.created_at,
    job.scheduled_at, job.attempted_at, null::timestamptz as finalized_at, job.errors -> -1 ->> 'error' as error, job.waits_for,
    job.args::text as args_json, null::text as output_json, to_json(job.errors)::text as errors, job.crashes, job.cancel_requested,
    process.host, process.pid, job.meta::text as meta, to_json(job_progress)::text as progress
from fastq.job
left join fastq.process on process.id = (job.claim >> 32)
left join fastq.job_progress on job_progress.job = job.id
where job.id = $1::bigint
union all
select job.id, job.state, job.kind, job.queue, job.priority, job.attempt, job.max_attempts, job.tags, job.created_at,
    null, job.attempted_at, job.finalized_at, job.errors -> -1 ->> 'error', null,
    job.args::text, job.output::text, to_json(job.errors)::text, job.crashes, false, null, null,
    job.meta::text, to_json(job_progress)::text
from fastq.job_archive as job
left join fastq.job_progress on job_progress.job = job.id
where job.id = $1::bigint and (select count(*) from fastq.job as living where living.id = $1::bigint) = 0
