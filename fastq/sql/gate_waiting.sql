-- what: how many jobs wait in each of some lines, $3 at most of each, and when the oldest of the first of each priority was enqueued.
--       Answers with the number of the line among those given, and these two; a line without jobs is left out.
-- called by: admin/gates: list. Arrays of one length: $1 queues, $2 gates. The counts are for people: bounded.
-- index: job_waiting: a range of each line, and its first entry for each priority.
-- locks: none.
select given.nth, counted.jobs, oldest.created_at
from unnest($1::text[], $2::text[]) with ordinality as given (queue, gates, nth)
cross join lateral (
    select count(*) as jobs
    from (
        select from fastq.job where job.queue = given.queue and job.waits_for = given.gates limit $3::bigint
    ) as sample
) as counted
cross join lateral (
    select min(first.created_at) as created_at
    from unnest('{1,2,3,4}'::smallint[]) as each (priority)
    cross join lateral (
        select created_at from fastq.job
        where job.queue = given.queue and job.waits_for = given.gates and job.priority = each.priority
        order by job.id
        limit 1
    ) as first
) as oldest
where counted.jobs > 0
order by given.nth
