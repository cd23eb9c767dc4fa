-- what: the queues, kinds and tags that are known without a look at all jobs, each as a row of 'queue', 'kind' or 'tag' and its name: those of the
--       newest $1 living jobs, of living processes, of periodic jobs, and of discarded jobs that retention has removed.
-- called by: admin/search/pages: for the values of a filter.
-- index: job_ready and job_waiting, skipped from queue to queue; job_pkey, from its end.
-- locks: none.
with recursive ready (name) as (
    (select queue from fastq.job where seq is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where seq is not null and queue > ready.name order by queue limit 1)
    from ready where ready.name is not null
), resting (name) as (
    (select queue from fastq.job where waits_for is not null order by queue limit 1)
    union all
    select (select queue from fastq.job where waits_for is not null and queue > resting.name order by queue limit 1)
    from resting where resting.name is not null
), newest as materialized (
    select queue, kind, tags from fastq.job order by id desc limit $1::bigint
), living as (
    select queues, kinds from fastq.process where expires_at > clock_timestamp()
)
select sort, name
from (
    select 'queue' as sort, name::text from ready
    union select 'queue', name::text from resting
    union select 'queue', queue::text from newest
    union select 'queue', unnest(string_to_array(queues, ',')) from living
    union select 'queue', name from fastq.queue where name <> '*'
    union select 'queue', queue from fastq.periodic
    union select 'kind', kind::text from newest
    union select 'kind', unnest(kinds) from living
    union select 'kind', kind from fastq.periodic
    union select 'kind', kind from fastq.dead_count
    union select 'tag', unnest(tags) from newest
) as known
where name is not null
order by sort, name
