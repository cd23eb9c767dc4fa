-- what: the periodic jobs that living processes define differently, each with the hashes.
-- called by: chores/periodic. $1 queues (null or empty: all).
-- index: none: both tables have as many rows as there are periodic jobs, and worker processes.
-- locks: none.
with declared as materialized (
    select split_part(part, '=', 1) as name, array_agg(distinct split_part(part, '=', 2)) as hashes
    from (select distinct periodic from fastq.process where expires_at > clock_timestamp()) as app cross join unnest(periodic) as part
    group by 1
)
select name, hashes
from declared
where cardinality(hashes) > 1 and exists (
    select from fastq.periodic
    where periodic.name = declared.name and (coalesce(cardinality($1::text[]), 0) = 0 or queue = any ($1::text[]))
)
order by name
