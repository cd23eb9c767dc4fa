-- what: enqueues ticks: a row in periodic_tick and a job for each that has none yet, in one statement, then moves the schedules
--       on, and wakes the queues. A schedule that was changed or paused meanwhile, or is locked, is left for the next time.
--       Answers with whether the term holds, the number of jobs and the names moved.
-- called by: lead/chores/periodic. $1-$3 fence. Arrays: $4 names, $5 their hashes, $6 their next ticks; $7 names of ticks, $8
--            ticks. $9 channel (null: no hint).
-- index: lease_pkey; periodic_pkey; periodic_tick_pkey finds a tick that was enqueued already.
-- locks: the schedules' rows; a locked one is skipped. The lease's row, for key share.
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
), ticked as (
    -- Ticks before the next one have been enqueued or given up, though their rows may have been deleted: they never come again.
    insert into fastq.periodic_tick (name, tick, job_id)
    select schedule.name, wanted.tick, nextval(pg_get_serial_sequence('fastq.job', 'id'))
    from unnest($7::text[], $8::timestamptz[]) with ordinality as wanted (name, tick, nth)
    join schedule on schedule.name = wanted.name and wanted.tick >= schedule.next_tick
    order by wanted.nth
    on conflict do nothing
    returning name, tick, job_id
), enqueued as (
    insert into fastq.job (id, kind, args, queue, priority, max_attempts, tags, meta)
    overriding system value
    select ticked.job_id, schedule.kind, schedule.args, schedule.queue, schedule.priority, schedule.max_attempts,
        schedule.tags || array[
            'periodic:' || ticked.name,
            'tick:' || replace(to_char(ticked.tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '.000000Z', 'Z')
        ],
        schedule.meta
    from ticked join schedule on schedule.name = ticked.name
    order by ticked.job_id
    returning queue
), moved as (
    update fastq.periodic
    set next_tick = greatest(schedule.next_tick, schedule.next), error = null,
        last_tick = greatest(last_tick, (select max(tick) from ticked where ticked.name = schedule.name))
    from schedule
    where periodic.name = schedule.name
    returning periodic.name
), woken as (
    select pg_notify($9::text, queue) from (select distinct queue from enqueued) as hint where $9::text is not null
)
select (select count(*) from held), (select count(*) from enqueued), array(select name from moved), (select count(*) from woken)
