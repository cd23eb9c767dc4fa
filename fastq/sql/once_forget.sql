-- what: looks at $6 rows of the guard of side effects, after the one of name $4 and item $5, and deletes those older than $7 days. Says the
--       last one's name and item, at how many it looked, and how many went.
-- called by: lead/chores/forget: it walks through the table so. $1-$3 fence.
-- index: once_pkey; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select name, item, at from fastq.once
    where exists (select from held) and (name, item) > ($4::text, $5::text)
    order by name, item
    limit $6::bigint
), gone as (
    delete from fastq.once using looked
    where once.name = looked.name and once.item = looked.item
      and looked.at < (clock_timestamp() - ($7::float8 * interval '1 day')) and once.at = looked.at
    returning 1
), last as (
    select name, item from looked order by name desc, item desc limit 1
)
select (select count(*) from held), last.name, last.item, (select count(*) from looked), (select count(*) from gone)
from (values (1)) as one (row)
left join last on true
