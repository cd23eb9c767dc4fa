-- what: makes finished jobs available again as job_rerun does: those with the ids $1 at the row addresses (ctid) $2 that ended from $3 on and before
--       $4, all on one day. Answers for each id with 'available', 'held' (another job holds its key) or 'gone'.
-- called by: lead/bulk/verbs: for an operation. $5 channel (null: no hint).
-- index: none of the archive: the addresses say where in the day's partition; gate_permit_pkey; unique_key_pkey; job_pkey; dead_pkey;
--        job_archive_id (block ranges), for the holders of keys until success.
-- locks: the finished rows in the order of their ids, then the keys, in their order, like job_rerun.
with kept as materialized (
    select job_archive.id, job_archive.ctid as place, attempted_at, meta -> 'unique'::text as entry
    from unnest($1::bigint[], $2::text[]) as given (id, address)
    join fastq.job_archive on job_archive.ctid = given.address::tid and job_archive.id = given.id
    where job_archive.finalized_at >= $3::timestamptz and job_archive.finalized_at < $4::timestamptz
    order by job_archive.id
    for update of job_archive
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
        select case when count(*) > 0 then 1::bigint end as id from fastq.job_archive where job_archive.id = held.job_id and job_archive.state <> 'completed'
    ) as failed on held.until = 'success'
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
    using kept as one
    where job_archive.ctid = one.place and job_archive.id = one.id
      and job_archive.finalized_at >= $3::timestamptz and job_archive.finalized_at < $4::timestamptz and one.id = any (array(
        select kept.id from kept where not exists (select from keyed where keyed.id = kept.id)
        union all select id from keys_moved
        union all select id from keys_taken
    ))
    returning job_archive.*
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
    select queue, waits_for, count(*), priority, min(id) from revived where waits_for is not null group by queue, waits_for, priority
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
    select count(pg_notify($5::text, wake))
    from (select case when waits_for is null then queue else '@gate' end as wake
        from revived group by 1
        union select '@workflow' from noted) as hint where $5::text is not null
)
select given.id, case when revived.id is not null then 'available' when judged.id <> given.id or judged.holder is not null then 'held' else 'gone' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join revived on revived.id = given.id
left join keyed on keyed.id = given.id
left join judged on judged.key = keyed.key
cross join woken
order by nth
