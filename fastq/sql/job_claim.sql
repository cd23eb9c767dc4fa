-- what: claims up to $7 jobs of one queue, best priority first, each after its cursor; the answer is one row of blobs. Args of
--       $13 bytes and more, and compressed ones, are counted by the length of their text; once the sum has reached $12 bytes, no
--       more such jobs are taken. The last column holds the sum, and priority and seq of the first job that was left. The sum is
--       kept in settings of the transaction, so that small args cost no more than two looks at their header.
--       The column before it holds the tags of the jobs that have some; where a job has meta, an object with both; where one has either,
--       the column behind it tells the time of the claim, in seconds since 1970.
--       Where none has meta, the commit does not wait for the disk (docs/adr/0045).
-- called by: work/cursor/claims: in the queue's turn, or for a part taken in it. $1 claim, $2 queue, $3-$6 cursor of priority 1-4
--            (exclusive), $7 limit, $8-$11 upper end of seq by priority (inclusive): a re-scan ends at each priority's own
--            frontier, or jobs beyond one of them would be taken before their turn. $12, $13 bytes, $14 ids that are passed over.
-- index: job_ready, one range per priority. The UPDATE is HOT: it changes no column that an index names.
-- locks: the claimed rows, and until the statement's end those that were left; rows that others have locked are skipped.
with claimed as (
    update fastq.job
    set state = 'running', claim = $1::bigint, attempt = attempt + 1, attempted_at = clock_timestamp()
    where job.ctid = any (array(
        select pick.address
        from (values (1::smallint, $3::bigint, $8::bigint), (2, $4::bigint, $9::bigint), (3, $5::bigint, $10::bigint),
            (4, $6::bigint, $11::bigint)) as range (priority, after, upto)
        cross join lateral (
            select job.ctid as address, job.seq, job.args
            from fastq.job
            where job.queue = $2::text and job.priority = range.priority and job.seq > range.after and job.seq <= range.upto
              and job.state = 'available' and job.id <> all ($14::bigint[])
            order by job.seq
            limit $7::bigint
            for update skip locked
        ) as pick
        where not exists (select from fastq.queue where queue.name = any (array[$2::text, '*']) and queue.paused_at is not null)
          and case
              when pg_column_size(pick.args) < $13::bigint and pg_column_compression(pick.args) is null then true
              when ('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint < $12::bigint then
                  set_config('fastq_claim.bytes', (('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint
                      + case when pg_column_compression(pick.args) is null then pg_column_size(pick.args)
                          else octet_length(pick.args::text) end)::text, true) is not null
              when current_setting('fastq_claim.left', true) <> '' then false
              else set_config('fastq_claim.left', range.priority || ' ' || pick.seq, true) is null
          end
        limit $7::bigint
    ))
    returning id, seq, (attempt::bigint << 32) | (max_attempts::bigint << 16) | priority as counts, created_at, kind, args,
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
    case when json_object_agg(id, beside) filter (where beside is not null) is not null then extract(epoch from clock_timestamp())::text end,
    concat_ws(' ', '0' || coalesce(current_setting('fastq_claim.bytes', true), ''), current_setting('fastq_claim.left', true))
from claimed
having case when bool_and((beside -> 'meta'::text) is null) then set_config('synchronous_commit', 'off', true) is not null else true end
