-- what: a queue of domain $1, which works the queues $2, that another domain's living processes work too, and the name of that domain: one
--       that was there first, since its first process has a lower number. The default domain maintains every queue. No row: there is none.
-- called by: host/neighbours: after the first beats of a supervisor. $3 a domain that $1 takes over from, which does not count.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
with living as materialized (
    select id, domain, string_to_array(queues, ',') as queues from fastq.process where expires_at > clock_timestamp()
)
select (case when $1::text = 'default' then other.queues
    when other.domain = 'default' then $2::text[]
    else array(select unnest(other.queues) intersect select unnest($2::text[]) order by 1) end)[1], other.domain
from living as other
where other.domain <> $1::text and other.domain <> $3::text
  and other.id < (select min(id) from living where domain = $1::text)
  and ($1::text = 'default' or other.domain = 'default' or other.queues && $2::text[])
order by other.id
limit 1
