-- what: the time, in how many seconds to look again (null: nothing waits), and the periodic jobs that are due or lack a next
--       tick, each with its schedule. Only those of the given queues that are not paused, not in $3, and declared by any living
--       process. One that was defined a moment ago and is due is about to be declared: look again soon.
-- called by: lead/chores/periodic. $1 queues (null or empty: all), $2 the most rows, $3 names to leave out.
-- index: none: both tables have as many rows as there are periodic jobs, and worker processes.
-- locks: none.
with clock as materialized (
    select clock_timestamp() as now
), declared as materialized (
    select coalesce(array_agg(distinct split_part(part, '=', 1)), '{}') as names
    from (select distinct periodic from fastq.process, clock where expires_at > clock.now) as app cross join unnest(periodic) as part
), ours as materialized (
    select name, schedule, tz, missed, backfill, hash, next_tick, defined_at, name = any (declared.names) as ticks
    from fastq.periodic, declared
    where paused_at is null and (coalesce(cardinality($1::text[]), 0) = 0 or queue = any ($1::text[])) and name <> all ($3::text[])
), due as (
    select name, schedule, tz, missed, backfill, hash, next_tick, coalesce(next_tick = defined_at, false) as first
    from ours, clock
    where ticks and (next_tick is null or next_tick <= clock.now)
    order by next_tick nulls first, name
    limit $2::bigint
), soon as (
    select extract(epoch from min(case
        when ticks and next_tick > clock.now then next_tick - clock.now
        when not ticks and next_tick <= clock.now and defined_at > (clock.now - interval '1 minute') then interval '0.2 s'
    end))::float8 as seconds, count(*) as known
    from ours, clock
)
select clock.now, soon.seconds, soon.known, due.*
from clock cross join soon left join due on true
