-- what: takes the answer to request $1, with its time, and removes the row; two nulls if there is none yet. With whether process $2, of which
--       it was asked, still lives.
-- called by: admin/running/whereabouts: again and again, until there is one.
-- index: stack_pkey; process_pkey.
-- locks: the row.
with taken as (
    delete from fastq.stack where id = $1::bigint and answered_at is not null
    returning answered_at, text
)
select (select answered_at from taken), (select text from taken),
    exists (select from fastq.process where id = $2::bigint and expires_at > clock_timestamp())
