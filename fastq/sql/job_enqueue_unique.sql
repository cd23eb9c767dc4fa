-- what: enqueues jobs of which some are unique: one that asks for a key gets it or is not made. Answers for each job in the
--       order given: its id, 'new' and its state; or the id of the job that holds its key, 'held' and that job's state (null: it has ended).
--       Or 'ended': the holder has ended, and may have succeeded, which would free the key (unique_settle looks). Or 'unseen':
--       another transaction took the key while this statement ran; asked again, it tells which. A duplicate takes no id and
--       writes nothing.
-- called by: enqueue/calls, enqueue/uniques, admin/exports/importing: for the clients, in the caller's transaction. $1-$9 are those of job_enqueue_many.
--            $10 ids of holders from whom the key is to be taken (an empty element: from none; null: from none at all).
-- index: unique_key_pkey; job_pkey.
-- locks: the keys that it takes, in their order; it waits for a transaction that has taken one of them and is not ended.
with given as materialized (
    select nth, kind, queue, priority, max_attempts, args, tags, meta, due, over,
        decode((meta -> 'unique'::text) ->> 0, 'hex') as key, (meta -> 'unique'::text) ->> 1 as until,
        due + make_interval(secs => ((meta -> 'unique'::text) ->> 2)::float8) as expires_at
    from (
        select nth, kind, queue, priority, max_attempts, args, tags, meta::jsonb as meta, over,
            coalesce(at, statement_timestamp() + make_interval(secs => delay)) as due
        from unnest(
            string_to_array($1::text, E'\x1e'),
            string_to_array($2::text, E'\x1e'),
            string_to_array($3::text, E'\x1e')::smallint[],
            string_to_array($4::text, E'\x1e')::smallint[],
            string_to_array($5::text, E'\x1e'),
            string_to_array($6::text, E'\x1e', ''),
            string_to_array($7::text, E'\x1e', '')::float8[],
            string_to_array($8::text, E'\x1e', '')::timestamptz[],
            string_to_array($9::text, E'\x1e', ''),
            string_to_array($10::text, E'\x1e', '')::bigint[]
        ) with ordinality as given (kind, queue, priority, max_attempts, args, tags, delay, at, meta, over, nth)
    ) as stated
), asking as materialized (
    -- A job that is to be made has its id from here on; which of them get their keys is found out below.
    select ordered.*,
        case when fate is null or fate = 'free' then nextval(pg_get_serial_sequence('fastq.job', 'id')) end as id
    from (
        select given.*, held.job_id as holder, held.since as seen, job.state::text as state,
            case when held.job_id is null then null
                 when held.expires_at <= statement_timestamp() or held.job_id = given.over then 'free'
                 when held.until = 'time' or job.id is not null and (held.until <> 'start' or job.attempted_at is null) then 'held'
                 when job.id is null and held.until = 'success' then 'ended'
                 else 'free' end as fate
        from given
        left join lateral (select * from fastq.unique_key where unique_key.key = given.key limit 1) as held on true
        left join lateral (select id, state, attempted_at from fastq.job where job.id = held.job_id limit 1) as job on true
        order by given.nth
    ) as ordered
), locked as materialized (
    select ordered.id, ordered.key, ordered.until, ordered.seen, ordered.expires_at
    from (select * from asking where id is not null and seen is not null order by key) as ordered
    cross join lateral (
        select from fastq.unique_key where unique_key.key = ordered.key and unique_key.since = ordered.seen for update
    ) as free
), keys_moved as (
    insert into fastq.unique_key (key, job_id, since, until, expires_at)
    select key, id, greatest(clock_timestamp(), seen + interval '1 microsecond'), until, expires_at
    from locked
    on conflict (key) do update
    set job_id = excluded.job_id, since = excluded.since, until = excluded.until, expires_at = excluded.expires_at
    returning job_id as id
), keys_taken as (
    insert into fastq.unique_key (key, job_id, since, until, expires_at)
    select key, id, clock_timestamp(), until, expires_at
    from asking
    where id is not null and key is not null and seen is null and (select count(*) from keys_moved) is not null  -- not before those are locked
    order by key
    on conflict do nothing
    returning job_id as id
), enqueued as (
    insert into fastq.job (id, kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at, waits_for)
    overriding system value
    select id, kind, queue, priority, max_attempts, args::json, string_to_array(tags, E'\x1f'), meta,
        (case when due > statement_timestamp() then 'scheduled' when meta ->> 'gates'::text is not null then 'waiting' else 'available' end)::fastq.state,
        case when due > statement_timestamp() or meta ->> 'gates'::text is not null then null else nextval('fastq.job_seq') end,
        case when due > statement_timestamp() then due end,
        case when due > statement_timestamp() then null else meta ->> 'gates'::text end
    from asking
    where id is not null and (key is null or id in (select id from keys_moved union all select id from keys_taken))
    order by nth
    returning id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from enqueued where waits_for is not null group by queue, waits_for, priority
    returning id
)
select case when made then id else holder end, case when made then 'new' when fate <> 'free' then fate else 'unseen' end,
    case when not made then state when due > statement_timestamp() then 'scheduled' when meta ->> 'gates'::text is not null then 'waiting'
         else 'available' end
from (select asking.*, coalesce(id in (select id from enqueued), false) as made from asking) as told
order by nth
