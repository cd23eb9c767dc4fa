-- what: the oldest operation that has not ended and is not among $1: its id, verb, filter, change and place.
-- called by: lead/bulk/chunks: before it looks for jobs.
-- index: operation_open.
-- locks: none; operation_hold looks again.
select id, verb, words, change::text, place
from fastq.operation
where ended_at is null and id <> all ($1::bigint[])
order by id
limit 1
