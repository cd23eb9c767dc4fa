-- what: how many jobs count in each line, as JSON: those that are admitted, and those whose end the gatekeeper has not read yet. Its
--       memory must say the same.
-- called by: lead/gate/gatekeeper: now and then, to compare.
-- index: none: the permits and the log are read from end to end.
-- locks: none.
select json_agg(json_build_array(queue, gates, jobs))::text
from (
    select queue, gates, sum(jobs)::bigint as jobs
    from (
        select queue, gates, 1 as jobs from fastq.gate_permit
        union all
        select queue, gates, jobs from fastq.gate_event where priority is null or until is not null
    ) as counted
    group by queue, gates
) as line
