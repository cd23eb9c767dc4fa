-- what: looks at $6 jobs that are available or running, from a position in the order of the claims on ($3 queue, $4 priority, $5
--       seq). Of these, the jobs that run in a process of $8 that has expired, or since more than $7 seconds in a process without
--       a row. Answers with their ids, claims and attempts, how many jobs it looked at, and the position of the last one.
-- called by: lead/rescue/stranded: until it looked at less than $6. $1 queues (null or empty: every queue), $2 domain: queues of
--            its processes count too, since the last process that worked a queue may be the one that has expired.
-- index: job_ready: skipped from queue to queue, then a range of each; process_pkey.
-- locks: none; job_rescue looks again.
with recursive every (queue) as (
    (select queue from fastq.job where seq is not null and queue >= $3::text order by queue limit 1)
    union all
    select (select queue from fastq.job where seq is not null and queue > every.queue order by queue limit 1)
    from every where every.queue is not null
), ours (queue) as (
    select queue::text from every where queue is not null and coalesce(cardinality($1::text[]), 0) = 0
    union
    select given.queue
    from (
        select unnest($1::text[])
        union
        select unnest(string_to_array(process.queues, ',')) from fastq.process where process.domain = $2::text
    ) as given (queue)
    where cardinality($1::text[]) > 0 and given.queue collate pg_catalog."C" >= $3::text
), looked as materialized (
    select pick.*
    from (select queue from ours order by queue collate pg_catalog."C") as ours
    cross join lateral (
        select job.id, job.queue, job.priority, job.seq, job.state, job.claim, job.attempt, job.attempted_at
        from fastq.job
        where job.queue = ours.queue and job.seq is not null
          and (job.priority, job.seq) > (case when ours.queue = $3::text then $4::smallint else 0::smallint end,
              case when ours.queue = $3::text then $5::bigint else 0 end)
        order by job.priority, job.seq
        limit $6::bigint
    ) as pick
    limit $6::bigint
), stranded as (
    select looked.id, looked.claim, looked.attempt
    from looked
    left join fastq.process on process.id = (looked.claim >> 32)
    where looked.state = 'running'
      and (looked.claim is null or (process.expires_at < clock_timestamp() and process.id = any ($8::bigint[]))
          or (process.id is null and looked.attempted_at < (clock_timestamp() - make_interval(secs => $7::float8))))
), last as (
    select queue, priority, seq from looked order by queue desc, priority desc, seq desc limit 1
)
select ids.*, (select count(*) from looked), last.queue::text, last.priority::smallint, last.seq
from (
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(claim), '{}'), coalesce(array_agg(attempt), '{}') from stranded
) as ids
left join last on true
