-- what: the operations, newest first, $1 at most; of $2 alone, if it is not null.
-- called by: admin/bulk/operations.
-- index: operation_pkey, from its end.
-- locks: none.
select id, verb, words, change::text as change, state, asked_by, created_at, started_at, ended_at, cancel_requested, expected, at_least, done,
    skipped::text as skipped, error
from fastq.operation
where $2::bigint is null or id = $2::bigint
order by id desc
limit $1::bigint
