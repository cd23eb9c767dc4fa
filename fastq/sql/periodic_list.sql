-- what: the periodic jobs, each with whether a living process declares it, and with how many definitions the living differ.
-- called by: admin_periodic. $1 name or null: all.
-- index: none: both tables have as many rows as there are periodic jobs, and worker processes.
-- locks: none.
with declared as materialized (
    select split_part(part, '=', 1) as name, count(distinct split_part(part, '=', 2)) as definitions
    from (select distinct periodic from fastq.process where expires_at > clock_timestamp()) as app cross join unnest(periodic) as part
    group by 1
)
select periodic.name, schedule, tz, queue, kind, missed, backfill, last_tick, next_tick, paused_at,
    coalesce(declared.definitions, 0), error
from fastq.periodic left join declared on declared.name = periodic.name
where $1::text is null or periodic.name = $1::text
order by periodic.name
