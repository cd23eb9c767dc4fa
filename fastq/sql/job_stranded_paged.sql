-- what: looks at the pages of the table from $3 to before $4. Of the jobs there that are running, those that run in a process of $6
--       that has expired, or since more than $5 seconds in a process without a row. Answers with their ids, claims and attempts, and how many
--       pages the table has.
-- called by: lead/rescue/stranded: where job_stranded took too long, since dead rows that an old snapshot keeps lie before the living
--            ones in its index. $1 queues (null or empty: every queue), $2 domain: queues of its processes count too.
-- index: none: a range of the table; process_pkey.
-- locks: none; job_rescue looks again.
with ours as (
    select coalesce(array_agg(given.queue), '{}') as queues
    from (
        select unnest($1::text[])
        union
        select unnest(string_to_array(process.queues, ',')) from fastq.process where process.domain = $2::text
    ) as given (queue)
), stranded as (
    select job.id, job.claim, job.attempt
    from fastq.job
    left join fastq.process on process.id = (job.claim >> 32)
    where job.ctid >= $3::tid and job.ctid < $4::tid and job.state = 'running'
      and (coalesce(cardinality($1::text[]), 0) = 0 or job.queue = any (array(select unnest(queues) from ours)))
      and (job.claim is null or (process.expires_at < clock_timestamp() and process.id = any ($6::bigint[]))
          or (process.id is null and job.attempted_at < (clock_timestamp() - make_interval(secs => $5::float8))))
)
select coalesce(array_agg(id), '{}'), coalesce(array_agg(claim), '{}'), coalesce(array_agg(attempt), '{}'),
    (select pg_relation_size('fastq.job'::regclass) / current_setting('block_size')::bigint)
from stranded
