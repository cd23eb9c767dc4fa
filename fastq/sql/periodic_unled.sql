-- what: the queues, in order, of periodic jobs that living processes declare, are not paused, and do not tick since nobody leads
--       a domain that maintains the queue; each with the names of the jobs. A domain counts as led as in periodic_list.
-- called by: lead/chores/unled.
-- index: none: the tables have as many rows as there are periodic jobs, worker processes and leases.
-- locks: none.
with declared as materialized (
    select coalesce(array_agg(distinct split_part(part, '=', 1)), '{}') as names
    from (select distinct periodic from fastq.process where expires_at > clock_timestamp()) as app cross join unnest(periodic) as part
)
select queue, array_agg(name order by name)
from fastq.periodic, declared
where paused_at is null and name = any (declared.names) and not exists (
    select from fastq.lease
    where lease.name like 'leader:%' and holder <> '' and expires_at > clock_timestamp()
      and (lease.name = 'leader:default' or periodic.queue = any (lease.queues))
)
group by queue
order by queue
