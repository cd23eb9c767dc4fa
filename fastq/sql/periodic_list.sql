-- what: the periodic jobs, each with in how many ways living processes define it (0: none declares it), and whether somebody leads a
--       domain that maintains its queue: the default one maintains each, a named one those that stand in its lease.
-- called by: admin/periodic. $1 name or null: all.
-- index: none: the tables have as many rows as there are periodic jobs, worker processes and leases.
-- locks: none.
with declared as materialized (
    select split_part(part, '=', 1) as name, count(distinct split_part(part, '=', 2)) as definitions
    from (select distinct periodic from fastq.process where expires_at > clock_timestamp()) as app cross join unnest(periodic) as part
    group by 1
)
select periodic.name, schedule, tz, queue, kind, missed, backfill, last_tick, next_tick, paused_at,
    coalesce(declared.definitions, 0) as definitions, error,
    exists (
        select from fastq.lease
        where lease.name like 'leader:%' and holder <> '' and expires_at > clock_timestamp()
          and (lease.name = 'leader:default' or periodic.queue = any (lease.queues))
    ) as led
from fastq.periodic left join declared on declared.name = periodic.name
where $1::text is null or periodic.name = $1::text
order by periodic.name
