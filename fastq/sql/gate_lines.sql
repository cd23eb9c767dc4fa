-- what: up to $3 lines in which jobs wait, behind the line given by $1 queue and $2 gates, as JSON.
-- called by: admin/gates, lead/gate/reading: to list the gates; page by page when a term begins, and now and then to compare.
-- index: job_waiting, skipped from line to line; the gates of a line begin with '[', other reasons to wait lie behind them.
-- locks: none.
with recursive line (queue, waits_for) as (
    (select queue, waits_for from fastq.job
     where waits_for is not null and (queue, waits_for) > ($1::text, $2::text)
     order by queue, waits_for limit 1)
    union all
    select next.queue, next.waits_for
    from line
    cross join lateral (
        select queue, waits_for from fastq.job
        where waits_for is not null
          and (queue, waits_for) > (line.queue, case when starts_with(line.waits_for, '[') then line.waits_for else '~' end)
        order by queue, waits_for
        limit 1
    ) as next
)
select json_agg(json_build_array(page.queue, page.waits_for))::text
from (select queue, waits_for from line where starts_with(waits_for, '[') limit $3::bigint) as page
