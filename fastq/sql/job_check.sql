-- what: the living jobs behind the id $1, in the order of their ids, $2 at most, each with its kind and its args as text.
-- called by: admin/deploys/misfits.
-- index: job_pkey.
-- locks: none.
select id, kind, args::text
from fastq.job
where id > $1::bigint
order by id
limit $2::bigint
