-- what: withdraws request $1: nobody waits for its answer any more. Says whether it was there.
-- called by: admin/running/whereabouts: when no answer has come.
-- index: stack_pkey.
-- locks: the row.
with gone as (
    delete from fastq.stack where id = $1::bigint returning 1
)
select exists (select from gone)
