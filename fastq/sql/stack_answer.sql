-- what: answers request $1 with text $2; nothing happens if nobody waits any more and the row is gone.
-- called by: work/stacks: for each request.
-- index: stack_pkey.
-- locks: the row.
update fastq.stack set answered_at = clock_timestamp(), text = $2::text where id = $1::bigint
