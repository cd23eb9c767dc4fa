-- what: the living jobs behind the id $1, in the order of their ids, $2 at most, each with its kind, its args as text, and the version of these (null: 1).
-- called by: admin/deploys/misfits.
-- index: job_pkey.
-- locks: none.
select id, kind, args::text, meta ->> 'version'::text
from fastq.job
where id > $1::bigint
order by id
limit $2::bigint
