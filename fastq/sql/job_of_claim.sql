-- what: the jobs that a claim took, if its answer never came.
-- called by: work/claim/unanswered: on a new connection, and through a pooler again later. $1 queue, $2 seq below everything that
--            the claim could take, $3 the claim.
-- index: job_ready, one range per priority.
-- locks: none.
select id from fastq.job
where queue = $1::text and priority >= 1 and priority <= 4 and seq > $2::bigint and state = 'running' and claim = $3::bigint
