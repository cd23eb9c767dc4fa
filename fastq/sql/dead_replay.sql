-- what: enqueues a new job for each of the discarded jobs $1 (ids, joined by commas), with "replay_of" in its meta; the old
--       one stays, and keeps the new id. The first is due at $2 (null: now) plus $3 seconds times $4, each next one $3 seconds later, in
--       the order in which the old ones ended. Answers for each old job: its id, the outcome, and a job: 'replayed' and the new one;
--       'done' and the one that replays it already, unless $5 is true; 'held' and the one that holds its key (args/unique.py);
--       'order', if it holds its key in order (args/gates.py); 'step', if it is one of a workflow; 'unseen', if another transaction took
--       its key while this statement ran: asked again, it tells which.
-- called by: admin/dead/letters, admin/dead/letters_async. $6 channel (null: no hint).
-- index: dead_pkey; gate_permit_pkey; unique_key_pkey; job_pkey; job_archive_id (block ranges).
-- locks: the old rows, in the order of their ids, then the keys, in their order, like job_rerun.
with kept as materialized (
    select * from fastq.dead
    where id = any (string_to_array($1::text, ',')::bigint[])
    order by id
    for update
), judged as materialized (
    -- The new job has done no step, and its attempts begin anew: their number may have grown with the progress of the old one.
    select id as old, finalized_at, kind, queue, priority, coalesce((meta ->> 'attempts'::text)::int, max_attempts) as max_attempts, args, tags,
        (coalesce(meta, '{}') - '{cause,because,steps,parked}'::text[]) || jsonb_build_object('replay_of', id) as meta,
        case when meta #>> '{workflow,1}'::text[] is not null then 'step'
             when replayed_by is not null and not $5::boolean then 'done'
             when meta ->> 'gates'::text is not null and (select gate_permit.job from fastq.gate_permit where gate_permit.job = kept.id) is not null then 'order'
        end as refused,
        replayed_by as other,
        decode((meta -> 'unique'::text) ->> 0, 'hex') as key, (meta -> 'unique'::text) ->> 1 as until,
        ((meta -> 'unique'::text) ->> 2)::float8 as within
    from kept
), wanted as materialized (
    select judged.*, row_number() over (partition by key order by finalized_at, old) as place,
        coalesce($2::timestamptz, statement_timestamp()) + make_interval(secs => $3::float8 * ($4::bigint + row_number() over (order by finalized_at, old) - 1)) as due
    from judged
    where refused is null
), asking as materialized (
    -- A job that is to be made has its id from here on; which of them get their keys is found out below.
    select ordered.*, case when holder is null or free then nextval(pg_get_serial_sequence('fastq.job', 'id')) end as id
    from (
        select wanted.*, due + make_interval(secs => within) as expires_at, held.job_id as holder, held.since as seen,
            held.job_id = wanted.old or coalesce(held.expires_at <= statement_timestamp(), false) or held.until <> 'time'
                and job.id is null and (held.until <> 'success' or failed.id is null) as free
        from wanted
        left join lateral (select * from fastq.unique_key where unique_key.key = wanted.key limit 1) as held on true
        left join lateral (
            select id from fastq.job where job.id = held.job_id and (held.until <> 'start' or job.attempted_at is null) limit 1
        ) as job on true
        left join lateral (
            -- Looked for where it matters alone, since block ranges answer: the holder is another job than the one that is replayed.
            select case when count(*) > 0 then 1::bigint end as id from fastq.job_archive
            where held.until = 'success' and held.job_id <> wanted.old and job_archive.id = held.job_id and job_archive.state <> 'completed'
        ) as failed on true
        where wanted.key is null or wanted.place = 1  -- of several with one key the first asks, and holds it then
        order by wanted.finalized_at, wanted.old
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
    select id, kind, queue, priority, max_attempts, args, tags, meta,
        (case when due > statement_timestamp() then 'scheduled' when meta ->> 'gates'::text is not null then 'waiting' else 'available' end)::fastq.state,
        case when due > statement_timestamp() or meta ->> 'gates'::text is not null then null else nextval('fastq.job_seq') end,
        case when due > statement_timestamp() then due end,
        case when due > statement_timestamp() then null else meta ->> 'gates'::text end
    from asking
    where id is not null and (key is null or id in (select id from keys_moved union all select id from keys_taken))
    order by finalized_at, old
    returning id, queue, priority, waits_for, case when seq is not null then queue when scheduled_at is not null then '@due' else '@gate' end as wake
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from enqueued where waits_for is not null group by queue, waits_for, priority
    returning id
), made as materialized (
    select asking.old, enqueued.id from asking join enqueued on enqueued.id = asking.id
), marked as (
    update fastq.dead
    set replayed_by = made.id
    from made
    where dead.id = made.old
    returning 1
), woken as (
    select count(pg_notify($6::text, wake)) as hints from (select distinct wake from enqueued where $6::text is not null) as hint
)
select judged.old, case when judged.refused is not null then judged.refused when made.id is not null then 'replayed'
        when asking.free = false then 'held' else 'unseen' end,
    case when judged.refused = 'done' then judged.other when judged.refused is null then coalesce(made.id, asking.holder) end
from judged
left join asking on asking.old = judged.old
left join made on made.old = judged.old
cross join woken
cross join (select count(*) from marked) as every
order by judged.old
