-- what: pauses a queue (or all of them, by the name '*'), a kind, a gate or a key of it; where that is paused already, it gives the pause
--       another end and reason. Answers with the time since when it is paused. Jobs that run go on.
-- called by: admin/pauses: to pause. $1 sort ('queue', 'kind', 'gate'), $2 name, $3 key of a gate
--            as JSON ('': every key) and $4 reason (null: none), each as a string of JSON in ASCII (for any encoding of a connection), $5 end, or $6 seconds until then; both null: no end. $7 channel (null: no hint).
-- index: queue_pkey, pause_pkey.
-- locks: the row of the queue or of the pause.
with given (until) as (
    select coalesce($5::timestamptz, clock_timestamp() + make_interval(secs => $6::float8))
), of_queue as (
    insert into fastq.queue (name, paused_at, paused_until, pause_reason)
    select $2::text, clock_timestamp(), until, $4::text::json #>> '{}'::text[] from given where $1::text = 'queue'
    on conflict (name) do update set paused_at = coalesce(queue.paused_at, excluded.paused_at), paused_until = excluded.paused_until,
        pause_reason = excluded.pause_reason
    returning paused_at
), of_another as (
    insert into fastq.pause (sort, name, key, paused_until, reason)
    select $1::text, $2::text, $3::text::json #>> '{}'::text[], until, $4::text::json #>> '{}'::text[] from given where $1::text <> 'queue'
    on conflict (sort, name, key) do update set paused_until = excluded.paused_until, reason = excluded.reason
    returning paused_at
)
select paused_at, case when $7::text is not null then pg_notify($7::text, '@pause') end,
    case when $7::text is not null and $1::text = 'gate' then pg_notify($7::text, '@gate') end
from (select paused_at from of_queue union all select paused_at from of_another) as paused
