-- what: queues that two domains maintain: by their living processes, by leases that are held, and by a domain that is about to join.
-- called by: lead/term/domains: at the start of a supervisor ($1 its domain, $2 its queues) and by the leader of the schema ($1 null).
-- index: none: few rows. The default domain maintains every queue, so it stands against each queue of a named one.
-- locks: none.
with maintained (domain, queue) as (
    select domain, unnest(string_to_array(queues, ',')) from fastq.process where expires_at > clock_timestamp()
    union
    select substr(name, 8), unnest(queues) from fastq.lease
    where name like 'leader:%' and holder <> '' and expires_at > clock_timestamp()
    union
    select substr(name, 8), '' from fastq.lease where name = 'leader:default' and holder <> '' and expires_at > clock_timestamp()
    union
    select $1::text, unnest($2::text[]) where $1::text is not null
)
select distinct one.queue, one.domain, other.domain
from maintained as one
join maintained as other on other.domain <> one.domain
    and (other.domain = 'default' or (other.queue = one.queue and one.domain < other.domain))
where one.domain <> 'default' and one.queue <> ''
order by 1, 2, 3
