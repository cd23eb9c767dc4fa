-- what: enqueues ticks: a row in periodic_tick and a job for each that has none yet, in one statement, then moves the schedules
--       on, and wakes the queues. A tick whose job would be unique while another job holds its key makes none: its row names
--       that job. A schedule that was changed or paused meanwhile, or is locked, is left for the next time. Answers with
--       whether the term holds, the number of jobs and the names moved.
-- called by: lead/chores/periodic. $1-$3 fence. Arrays: $4 names, $5 their hashes, $6 their next ticks; $7 names of ticks, $8
--            ticks. $9 channel (null: no hint).
-- index: lease_pkey; periodic_pkey; periodic_tick_pkey finds a tick that was enqueued already; unique_key_pkey; job_pkey.
-- locks: the schedules' rows; a locked one is skipped. The lease's row, for key share. The keys that it takes, in their order.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), schedule as materialized (
    select periodic.name, periodic.kind, periodic.args, periodic.queue, periodic.priority, periodic.max_attempts, periodic.tags, periodic.meta,
        periodic.next_tick, given.next
    from unnest($4::text[], $5::text[], $6::timestamptz[]) as given (name, hash, next)
    join fastq.periodic on periodic.name = given.name and periodic.hash = given.hash
    where periodic.paused_at is null and exists (select from held)
    for no key update of periodic skip locked
), wanted as materialized (
    select schedule.name, due.tick, due.nth, schedule.meta -> 'unique'::text as entry,
        row_number() over (partition by schedule.name order by due.nth) as place
    from unnest($7::text[], $8::timestamptz[]) with ordinality as due (name, tick, nth)
    join schedule on schedule.name = due.name and due.tick >= schedule.next_tick
), keyed as materialized (
    -- Of the ticks of a unique job the first one asks for its key, as an enqueue does (job_enqueue_unique).
    select name, decode(entry ->> 0, 'hex') as key, entry ->> 1 as until,
        statement_timestamp() + make_interval(secs => (entry ->> 2)::float8) as expires_at
    from wanted where entry is not null and place = 1
), known as materialized (
    select keyed.name, held.job_id, held.since,
        coalesce(held.expires_at <= statement_timestamp(), false)
            or held.until = any ('{start,end}'::text[]) and job.id is null as free
    from keyed
    cross join lateral (select * from fastq.unique_key where unique_key.key = keyed.key limit 1) as held
    left join lateral (
        select id from fastq.job where job.id = held.job_id and (held.until <> 'start' or job.attempted_at is null) limit 1
    ) as job on true
), asking as materialized (
    select distinct on (keyed.key) keyed.*, known.since as seen, nextval(pg_get_serial_sequence('fastq.job', 'id')) as id
    from keyed
    left join known on known.name = keyed.name
    where known.name is null or known.free
    order by keyed.key, keyed.name
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
), granted as materialized (
    select asking.name, asking.id from asking where id in (select id from keys_moved union all select id from keys_taken)
), ticked as (
    -- Ticks before the next one have been enqueued or given up, though their rows may have been deleted: they never come again.
    insert into fastq.periodic_tick (name, tick, job_id)
    select wanted.name, wanted.tick,
        case when wanted.entry is null then nextval(pg_get_serial_sequence('fastq.job', 'id')) else coalesce(granted.id,
        known.job_id, 0) end
    from wanted
    left join granted on granted.name = wanted.name
    left join known on known.name = wanted.name
    order by wanted.nth
    on conflict do nothing
    returning name, tick, job_id
), enqueued as (
    insert into fastq.job (id, kind, args, queue, priority, max_attempts, tags, meta, state, seq, waits_for)
    overriding system value
    select ticked.job_id, schedule.kind, schedule.args, schedule.queue, schedule.priority, schedule.max_attempts,
        schedule.tags || array[
            'periodic:' || ticked.name,
            'tick:' || replace(to_char(ticked.tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '.000000Z', 'Z')
        ],
        schedule.meta,
        (case when schedule.meta ->> 'gates'::text is null then 'available' else 'waiting' end)::fastq.state,
        case when schedule.meta ->> 'gates'::text is null then nextval('fastq.job_seq') end, schedule.meta ->> 'gates'::text
    from ticked
    join schedule on schedule.name = ticked.name
    join wanted on wanted.name = ticked.name and wanted.tick = ticked.tick
    where wanted.entry is null or wanted.place = 1 and ticked.job_id in (select id from granted)
    order by ticked.job_id
    returning id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from enqueued where waits_for is not null group by queue, waits_for, priority
    returning id
), moved as (
    update fastq.periodic
    set next_tick = greatest(schedule.next_tick, schedule.next), error = null,
        last_tick = greatest(last_tick, (select max(tick) from ticked where ticked.name = schedule.name))
    from schedule
    where periodic.name = schedule.name
    returning periodic.name
), woken as (
    select pg_notify($9::text, wake)
    from (select case when waits_for is null then queue else '@gate' end as wake from enqueued group by 1) as hint where $9::text is not null
)
select (select count(*) from held), (select count(*) from enqueued), array(select name from moved), (select count(*) from woken)
