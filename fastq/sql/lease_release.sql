-- what: frees the lease, if it is still ours.
-- called by: lease, when its supervisor stops. $1 domain, $2 holder, $3 term.
-- index: leader_pkey.
-- locks: the domain's row.
update fastq.leader set holder = '', expires_at = '-infinity'
where domain = $1::text and holder = $2::text and term = $3::bigint
