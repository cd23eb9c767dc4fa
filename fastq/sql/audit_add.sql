-- what: records a change of single jobs: $1 by whom, $2 verb, $3 the jobs that were changed (joined by commas), $4 change (JSON text, or null).
-- called by: admin/bulk/single: in the transaction of the change.
-- index: none is read.
-- locks: none but the new rows.
insert into fastq.audit (asked_by, verb, job, jobs, change)
select $1::text, $2::text, job, 1, $4::text::json
from unnest(string_to_array($3::text, ',')::bigint[]) as job
returning id
