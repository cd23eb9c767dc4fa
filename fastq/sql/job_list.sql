-- what: up to $7 jobs, living and finished, whose id is in ($1, $2], newest first. $3 states, $4 kind, $5 queue, $6 tag; null:
--       any.
-- called by: admin/jobs: list, which walks down in windows of ids, so that one call reads a bounded number of rows.
-- index: job_pkey backwards; job_archive_id (block ranges).
-- locks: none.
select *
from (
    select id, state, kind, queue, priority, attempt, max_attempts, tags, created_at, scheduled_at, attempted_at,
        null::timestamptz as finalized_at, errors -> -1 ->> 'error' as error, waits_for
    from fastq.job
    where id > $1::bigint and id <= $2::bigint
      and ($3::fastq.state[] is null or state = any ($3::fastq.state[])) and ($4::text is null or kind = $4::text)
      and ($5::text is null or queue = $5::text) and ($6::text is null or $6::text = any (tags))
    union all
    select id, state, kind, queue, priority, attempt, max_attempts, tags, created_at, null, attempted_at,
        finalized_at, errors -> -1 ->> 'error', null
    from fastq.job_archive
    where id > $1::bigint and id <= $2::bigint
      and ($3::fastq.state[] is null or state = any ($3::fastq.state[])) and ($4::text is null or kind = $4::text)
      and ($5::text is null or queue = $5::text) and ($6::text is null or $6::text = any (tags))
) as job
order by id desc
limit $7::bigint
