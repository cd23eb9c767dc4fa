-- what: asks the holder of a lease to resign from its present term, or from the one given; answers with holder and term, or with no row.
-- called by: admin/leaders: resign. $1 name, $2 term or null, $3 channel (null: no hint). A row, not a message: any role may send those.
-- index: lease_pkey.
-- locks: the row.
with asked as (
    update fastq.lease set resign_term = term
    where name = $1::text and holder <> '' and expires_at >= clock_timestamp() and ($2::bigint is null or term = $2::bigint)
    returning name, holder, term
)
select holder, term, case when $3::text is not null then pg_notify($3::text, '@lease ' || name) end from asked
