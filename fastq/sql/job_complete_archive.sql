-- what: moves jobs that completed to the archive. Only rows that still carry one of our claims go.
-- called by: work/complete/writes: for plain successes. $1 ids bigint[], $2 claims bigint[] (each claim once).
-- index: job_pkey; the archive's block-range indexes cost nothing per row.
-- locks: the rows, in the order of the ids given (the caller sorts them).
with done as (
    delete from fastq.job
    where id = any ($1::bigint[]) and claim = any ($2::bigint[]) and state = 'running'
    returning id, created_at, attempted_at, priority, attempt, max_attempts, crashes, queue, kind, args, tags, errors, meta
)
insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
    queue, kind, args, tags, errors, meta)
select id, created_at, attempted_at, now(), 'completed', priority, attempt, max_attempts, crashes,
    queue, kind, args, tags, errors, meta
from done
