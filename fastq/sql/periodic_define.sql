-- what: writes the definitions of periodic jobs that are new or have changed, and wakes the leader; answers with their names and whether
--       each is new. One that is as it was is not touched. Whether it is paused, and its last tick, stay; so does a tick that is pending,
--       unless the schedule is another one. $15: the first tick is now, at the definition, or the one that is overdue: then defined_at is
--       that one, which is how the leader knows the run at the start.
-- called by: lead/definitions: before the supervisor starts. Arrays: $1 names, $2 schedules, $3 time zones, $4 missed, $5 backfills, $6 hashes,
--            $7 kinds, $8 args, $9 queues, $10 priorities, $11 max_attempts, $12 tags (joined by a unit separator), $13 meta (json text),
--            $14 next ticks, $15 run_on_start. $16 channel (null: no hint).
-- index: periodic_pkey.
-- locks: the rows that change, in the order of their names.
with clock as materialized (
    select date_trunc('milliseconds', clock_timestamp()) as now
), given as (
    select *
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::smallint[], $11::smallint[], $12::text[], $13::text[], $14::timestamptz[], $15::boolean[])
        as given (name, schedule, tz, missed, backfill, hash, kind, args, queue, priority, max_attempts, tags, meta, next_tick, at_once)
    where not exists (select from fastq.periodic where periodic.name = given.name and periodic.hash = given.hash)
), defined as (
    insert into fastq.periodic (name, schedule, tz, missed, backfill, hash, kind, args, queue, priority, max_attempts, tags, meta,
        defined_at, next_tick)
    select name, schedule, tz, missed, backfill, hash, kind, args::json, queue, priority, max_attempts,
        string_to_array(tags, E'\x1f'), meta::jsonb, clock.now, case when at_once then clock.now else next_tick end
    from given, clock
    order by name
    on conflict (name) do update
    set schedule = excluded.schedule, tz = excluded.tz, missed = excluded.missed, backfill = excluded.backfill, hash = excluded.hash,
        kind = excluded.kind, args = excluded.args, queue = excluded.queue, priority = excluded.priority,
        max_attempts = excluded.max_attempts, tags = excluded.tags, meta = excluded.meta, error = null,
        defined_at = case
            when (periodic.schedule, periodic.tz, excluded.next_tick) = (excluded.schedule, excluded.tz, excluded.defined_at)
            then least(periodic.next_tick, excluded.defined_at)
            else excluded.defined_at
        end,
        next_tick = case
            when (periodic.schedule, periodic.tz) <> (excluded.schedule, excluded.tz) then excluded.next_tick
            when excluded.next_tick = excluded.defined_at then least(periodic.next_tick, excluded.next_tick)
            else coalesce(periodic.next_tick, excluded.next_tick)
        end
    where periodic.hash <> excluded.hash
    returning name, xmax = 0 as new
)
select name, new, case when $16::text is not null then pg_notify($16::text, '@periodic') end from defined
