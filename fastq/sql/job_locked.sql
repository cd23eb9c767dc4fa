-- what: those of the jobs $1 that another transaction has locked: one that cancels them, say, and was then forgotten.
-- called by: host/recovery, work/complete/writer, work/complete/hand_back: when a statement of theirs was held up, or before
--            jobs are handed back; the other jobs need not wait.
-- index: job_pkey.
-- locks: the other rows, until the statement's end.
with free as (
    select id from fastq.job where id = any ($1::bigint[]) for update skip locked
)
select id from fastq.job where id = any ($1::bigint[]) and not id in (select id from free)
