-- what: tells whether one of the leases $1 is held.
-- called by: host/neighbours: now and then, by a supervisor that does not lead.
-- index: lease_pkey.
-- locks: none.
select exists (select from fastq.lease where name = any ($1::text[]) and holder <> '' and expires_at > clock_timestamp())
