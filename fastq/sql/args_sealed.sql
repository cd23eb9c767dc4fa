-- what: looks at the living jobs behind the id $2, in the order of their ids, $3 at most. Answers with how many these are, the last id,
--       and those of kind $1 with encrypted args as JSON: id, digest and args of each, and whether it runs.
-- called by: admin/sealed/rotation: before args_reseal.
-- index: job_pkey.
-- locks: none.
with looked as materialized (
    select id, kind, state, args
    from fastq.job
    where id > $2::bigint
    order by id
    limit $3::bigint
), sealed as (
    select id, state, args from looked where kind = $1::text and strpos(args::text, '"$fq"') > 0
)
select
    (select count(*) from looked),
    (select max(id) from looked),
    coalesce(json_agg(json_build_array(id, md5(args::text), args, state = 'running') order by id), '[]')::text
from sealed
