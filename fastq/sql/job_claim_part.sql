-- what: claims all available jobs in one part of a queue's first priority. It finds and changes the rows in one step, which takes
--       a fifth less time than job_claim. But it has no limit other than the width of the part (each seq is given once, unless
--       the sequence went back), and it waits for rows that another transaction changes: 20 ms for each; after that it fails and
--       has claimed nothing. Large args are counted as in job_claim; of the jobs that were left the one with the lowest seq is
--       named.
-- called by: work/cursor/claims: a part of the backlog that is no longer than the limit. $1 claim, $2 queue, $3 (exclusive) and
--            $4 (inclusive) ends of the part, $5 and $6 the bytes that are $12 and $13 of job_claim.
-- index: job_ready, one range. The UPDATE is HOT: it changes no column that an index names.
-- locks: the claimed rows. The time limit is set before the first of them and ends with the transaction; it does not hold for the
--        wait for the table's lock, which comes before.
with claimed as (
    update fastq.job
    set state = 'running', claim = $1::bigint, attempt = attempt + 1, attempted_at = clock_timestamp()
    where queue = $2::text and priority = 1 and seq > $3::bigint and seq <= $4::bigint and state = 'available'
      and (select set_config('lock_timeout', '20ms', true)) is not null
      and not exists (select from fastq.queue where queue.name = any (array[$2::text, '*']) and queue.paused_at is not null)
      and case
          when pg_column_size(args) < $6::bigint and pg_column_compression(args) is null then true
          when ('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint < $5::bigint then
              set_config('fastq_claim.bytes', (('0' || coalesce(current_setting('fastq_claim.bytes', true), ''))::bigint
                  + case when pg_column_compression(args) is null then pg_column_size(args)
                      else octet_length(args::text) end)::text, true) is not null
          else set_config('fastq_claim.left', '1 ' || least(seq, case when current_setting('fastq_claim.left', true) <> '' then
              split_part(current_setting('fastq_claim.left', true), ' ', 2)::bigint end), true) is null
      end
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
