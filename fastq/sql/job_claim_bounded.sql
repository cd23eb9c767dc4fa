-- what: claims like job_claim, but stops at the job that takes the args beyond $12 bytes, as they are stored, and passes over the ids $13.
--       At least one job is taken. The running sum costs a seventh of a claim of small jobs, so it is not used for all.
-- called by: cursor: where args may be large, or claims have failed. $1-$11 as in job_claim, $12 bytes, $13 ids.
-- index: job_ready, as in job_claim.
-- locks: the claimed rows, and until the statement's end those beyond the bytes; rows that others have locked are skipped.
with claimed as (
    update fastq.job
    set state = 'running', claim = $1::bigint, attempt = attempt + 1, attempted_at = clock_timestamp()
    where job.ctid = any (array(
        select sized.place
        from (
        select pick.place, sum(pick.size) over (rows between unbounded preceding and 1 preceding) as before
        from (values (1::smallint, $3::bigint, $8::bigint), (2, $4::bigint, $9::bigint), (3, $5::bigint, $10::bigint),
            (4, $6::bigint, $11::bigint)) as lane (priority, after, upto)
        cross join lateral (
            select job.ctid as place, pg_column_size(job.args) as size
            from fastq.job
            where job.queue = $2::text and job.priority = lane.priority and job.seq > lane.after and job.seq <= lane.upto
              and job.state = 'available'
              and job.id <> all ($13::bigint[])
            order by job.seq
            limit $7::bigint
            for update skip locked
        ) as pick
        where not exists (select from fastq.queue where queue.name = $2::text and queue.paused_at is not null)
        limit $7::bigint
        ) as sized
        where sized.before is null or sized.before < $12::bigint
    ))
    returning id, seq, (attempt::bigint << 32) | (max_attempts::bigint << 16) | priority as counts, created_at, kind, args, tags
)
select
    string_agg(int8send(id), ''),
    string_agg(int8send(seq), ''),
    string_agg(int8send(counts), ''),
    string_agg(timestamptz_send(created_at), ''),
    string_agg(kind, E'\x1e'),
    string_agg(args::text, E',\x1e'),
    (json_object_agg(id, tags) filter (where tags is not null))::text
from claimed
