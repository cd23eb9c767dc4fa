-- what: those of the jobs $1 whose rows somebody has locked: in a transaction that cancels them, say, and was then forgotten.
-- called by: host/recovery, work/complete/completer, work/complete/hand_back: when what they write was held up, or before jobs are handed back; the others need not wait.
-- index: job_pkey.
-- locks: the other rows, until the statement's end.
with free as (
    select id from fastq.job where id = any ($1::bigint[]) for update skip locked
)
select id from fastq.job where id = any ($1::bigint[]) and not id in (select id from free)
