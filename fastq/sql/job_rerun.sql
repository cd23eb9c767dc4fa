-- what: makes jobs available now: waiting ones at once, finished ones back from the archive with their id, one more attempt and
--       no crashes; they have no time any more after which they expire, and no deadline. A unique one takes its key again, if it gave that up at its end and no other job holds it.
-- called by: admin/bulk/single, admin/changes, enqueue/client, enqueue/client_async: retry. $1 ids, $2 channel (null: no hint). Answers like
--            job_cancel with the state before and after; with 'waiting' for a step that waits for those before it, which stays so; and with
--            'held' and the holder's id where another job holds the key.
-- index: job_pkey; job_archive_id (block ranges); gate_permit_pkey; unique_key_pkey.
-- locks: the living rows, then the finished ones, each in the order of their ids: like job_delete, or the two would wait for one
--        another. Then the keys, in their order.
with mine as (
    select id, state, coalesce(waits_for, '') = 'workflow' as stays,
        meta ->> 'gates'::text is not null and (select gate_permit.job from fastq.gate_permit where gate_permit.job = job.id) is null as waits
    from fastq.job where id = any ($1::bigint[]) order by id for update
), hurried as (
    update fastq.job
    set state = (case when waits then 'waiting' else 'available' end)::fastq.state,
        seq = case when not waits then nextval('fastq.job_seq') end,
        scheduled_at = null, waits_for = case when waits then meta ->> 'gates'::text end
    from mine
    where job.id = mine.id and mine.state = any ('{scheduled,retryable,waiting}'::fastq.state[]) and not mine.stays
    returning job.id, queue, priority, waits_for
), kept as materialized (
    select id, attempted_at, meta -> 'unique'::text as entry from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from mine) is not null  -- not before those are locked
    order by id
    for update
), keyed as materialized (
    -- A finished job that held a key until its end takes it again; one that has given it up by its start, or with time, does not.
    select id, decode(entry ->> 0, 'hex') as key, entry ->> 1 as until, (entry ->> 2)::float8 as within
    from kept
    where entry ->> 1 = any ('{end,success}'::text[]) or entry ->> 1 = 'start' and attempted_at is null
), judged as materialized (
    select wanted.*, held.job_id as holder, held.since as seen,
        held.job_id = wanted.id or coalesce(held.expires_at <= statement_timestamp(), false) or held.until <> 'time'
            and job.id is null and (held.until <> 'success' or failed.id is null) as free
    from (
        select distinct on (key) id, key, until, statement_timestamp() + make_interval(secs => within) as expires_at
        from keyed
        order by key, id
    ) as wanted
    left join lateral (select * from fastq.unique_key where unique_key.key = wanted.key limit 1) as held on true
    left join lateral (
        select id from fastq.job where job.id = held.job_id and (held.until <> 'start' or job.attempted_at is null) limit 1
    ) as job on true
    left join lateral (
        -- Looked for where it matters alone, since block ranges answer: the holder is another job than the one that comes back.
        select case when count(*) > 0 then 1::bigint end as id from fastq.job_archive
        where held.until = 'success' and held.job_id <> wanted.id and job_archive.id = held.job_id and job_archive.state <> 'completed'
    ) as failed on true
), asking as materialized (
    select id, key, until, expires_at, seen from judged where holder is null or free
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
), taken as (
    delete from fastq.job_archive
    where id = any ($1::bigint[]) and id = any (array(
        select kept.id from kept where not exists (select from keyed where keyed.id = kept.id)
        union all select id from keys_moved
        union all select id from keys_taken
    ))
    returning *
), raised as (
    delete from fastq.dead where id = any (array(select id from taken))
), revived as (
    -- Below the largest smallint by one: the claim adds one, and must never fail.
    insert into fastq.job (id, created_at, attempted_at, state, priority, attempt, max_attempts, crashes, queue, kind, args, tags, errors, meta, seq, waits_for)
    overriding system value
    select id, created_at, attempted_at, (case when meta ->> 'gates'::text is null then 'available' else 'waiting' end)::fastq.state, priority, least(attempt, 32766), greatest(max_attempts, least(attempt, 32766) + 1), 0,
        queue, kind, args, tags, errors, case when (meta - '{cause,because,expires,deadline}'::text[]) <> '{}'::jsonb then meta - '{cause,because,expires,deadline}'::text[] end,
        case when meta ->> 'gates'::text is null then nextval('fastq.job_seq') end, meta ->> 'gates'::text
    from taken
    returning id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from (select * from hurried union all select * from revived) as come where waits_for is not null group by queue, waits_for, priority
    returning id
), freed as (
    -- A discarded job may have held its keys. It comes to the gates again before it gives them up, and goes first by its id.
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from taken where (select count(*) from arrived) is not null) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, null::fastq.state
    from taken where meta #>> '{workflow,1}'::text[] is not null
    returning id
), woken as (
    select count(pg_notify($2::text, wake))
    from (select case when waits_for is null then queue else '@gate' end as wake
        from (select * from hurried union all select * from revived) as come group by 1
        union select '@workflow' from noted) as hint where $2::text is not null
)
select given.id, coalesce(mine.state, taken.state)::text,
    case when mine.state = 'running' then 'running' when mine.stays then 'waiting' when coalesce(mine.id, revived.id) is not null then 'available'
         when judged.id <> given.id or judged.holder is not null then 'held' else 'missing' end,
    case when mine.id is null and revived.id is null then case when judged.id <> given.id then judged.id else judged.holder end end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join taken on taken.id = given.id
left join revived on revived.id = given.id
left join keyed on keyed.id = given.id
left join judged on judged.key = keyed.key
cross join woken
order by nth
