-- what: claims those of the jobs $2 that still wait for a worker, straight from waiting: if they were made available, a process
--       without a worker for them could take them again. They get a seq, by which the rows of running jobs are found. The answer
--       is that of job_claim.
-- called by: work/claim/waiting: after job_waiting. $1 claim, $2 ids bigint[], $3 queue.
-- index: job_pkey.
-- locks: the claimed rows; rows that others have locked are skipped.
with mine as (
    select id from fastq.job
    where id = any ($2::bigint[]) and state = 'waiting' and starts_with(waits_for, 'worker:')
      and not exists (select from fastq.queue where queue.name = any (array[$3::text, '*']) and queue.paused_at is not null)
    order by id
    for update skip locked
), claimed as (
    update fastq.job
    set state = 'running', seq = nextval('fastq.job_seq'), waits_for = null, claim = $1::bigint, attempt = attempt + 1,
        attempted_at = clock_timestamp()
    from mine
    where job.id = mine.id
    returning job.id, seq, (attempt::bigint << 32) | (max_attempts::bigint << 16) | priority as counts, created_at, kind, args,
        case when meta is null then to_json(tags) else json_build_object('tags', tags, 'meta', meta) end as beside
)
select
    string_agg(int8send(id), ''),
    string_agg(int8send(seq), ''),
    string_agg(int8send(counts), ''),
    string_agg(timestamptz_send(created_at), ''),
    string_agg(kind, E'\x1e'),
    string_agg(args::text, E',\x1e'),
    (json_object_agg(id, beside) filter (where beside is not null))::text,
    case when json_object_agg(id, beside) filter (where beside is not null) is not null then extract(epoch from clock_timestamp())::text end
from claimed
