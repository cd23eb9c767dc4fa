-- what: the records of changes by operators, newest first, $1 at most.
-- called by: admin/bulk/audits.
-- index: audit_pkey, from its end.
-- locks: none.
select id, at, asked_by, role, verb, words, job, operation, jobs, change::text as change
from fastq.audit
order by id desc
limit $1::bigint
