-- what: all leases, with the seconds until each expires (below 0: it has).
-- called by: admin/leaders.
-- index: none: one row per lease.
-- locks: none.
select name, holder, term, ttl, acquired_at,
    case when isfinite(expires_at) then extract(epoch from expires_at - clock_timestamp())::float8 end as expires_in, queues,
    coalesce(resign_term = term, false) as resigning
from fastq.lease
order by name
