-- what: prolongs leases that are still the caller's in the terms given and have not run out; answers with the names of those, and whether
--       each was asked to resign. A name that is missing in the answer is lost.
-- called by: leases/lease: in autocommit. Arrays: $1 names, $2 holders, $3 terms. $4 ttl in seconds.
-- index: lease_pkey.
-- locks: the rows.
update fastq.lease
set expires_at = clock_timestamp() + make_interval(secs => $4::float8), ttl = $4::float8
from unnest($1::text[], $2::text[], $3::bigint[]) as held (name, holder, term)
where lease.name = held.name and lease.holder = held.holder and lease.term = held.term and lease.expires_at >= clock_timestamp()
returning lease.name, coalesce(lease.resign_term = lease.term, false)
