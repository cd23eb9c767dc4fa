-- what: the oldest $1 subscriptions that live: id, filter, and the seconds that are left of each.
-- called by: work/forwarder: at the start of a process, upon a hint, and every few seconds while there are some.
-- index: none, for there are few subscriptions.
-- locks: none.
select id, filter, extract(epoch from (expires_at - clock_timestamp()))::float8
from fastq.subscription
where expires_at > clock_timestamp()
order by id
limit $1::bigint
