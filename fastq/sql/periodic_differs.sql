-- what: the periodic jobs that living processes define differently from each other, or all of them differently from the stored
--       definition (the program that stored it is gone), each with the hashes.
-- called by: lead/chores/periodic. $1 queues (null or empty: all).
-- index: none: both tables have as many rows as there are periodic jobs, and worker processes.
-- locks: none.
with declared as materialized (
    select split_part(part, '=', 1) as name, split_part(part, '=', 2) as hash
    from (select distinct periodic from fastq.process where expires_at > clock_timestamp()) as app cross join unnest(periodic) as part
), known as (
    select name, hash from declared
    union
    select name, hash from fastq.periodic where name in (select name from declared)
)
select name, array_agg(hash)
from known
where exists (
    select from fastq.periodic
    where periodic.name = known.name and (coalesce(cardinality($1::text[]), 0) = 0 or queue = any ($1::text[]))
)
group by name
having count(*) > 1
order by name
