-- what: ends jobs that completed and leave no archive row. Only rows that still carry one of our claims go.
-- called by: work/complete/writes: for plain successes without archive. $1 ids bigint[], $2 claims bigint[] (each claim once).
-- index: job_pkey.
-- locks: the rows, in the order of the ids given (the caller sorts them).
delete from fastq.job
where id = any ($1::bigint[]) and claim = any ($2::bigint[]) and state = 'running'
