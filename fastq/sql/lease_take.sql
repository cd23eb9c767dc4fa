-- what: takes or renews the lease of a domain in one statement; returns the term, or nothing while somebody else holds it.
-- called by: lease, in autocommit. $1 domain, $2 holder, $3 ttl in seconds.
-- index: leader_pkey.
-- locks: the domain's row.
update fastq.leader
set holder = $2::text,
    term = case when holder = $2::text and expires_at >= clock_timestamp() then term
                else greatest(term + 1, (extract(epoch from clock_timestamp()) * 1e6)::bigint) end,
    expires_at = clock_timestamp() + make_interval(secs => $3::float8)
where domain = $1::text and (holder = $2::text or holder = '' or expires_at < clock_timestamp())
returning term
