-- what: how many jobs are admitted in each line, of $1 that are looked at, as JSON: queue, gates, jobs.
-- called by: admin/gates: list. The counts are for people: bounded.
-- index: none: up to $1 permits are read.
-- locks: none.
select json_agg(json_build_array(queue, gates, jobs))::text
from (
    select queue, gates, count(*) as jobs
    from (select queue, gates from fastq.gate_permit limit $1::bigint) as sample
    group by queue, gates
) as line
