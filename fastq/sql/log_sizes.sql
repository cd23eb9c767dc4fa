-- what: the sizes of job logs by kind, largest first, in the newest $1 sheets: attempts, lines, bytes, the oldest one's time; then the bytes
--       on disk of all of them, and whether there are more.
-- called by: joblogs/reading/job_logs, joblogs/reading/job_logs_async: for people.
-- index: job_log_at.
-- locks: none.
with newest as materialized (
    select job, claim, kind, lines, size, at
    from fastq.job_log
    order by at desc
    limit $1::bigint
)
select kind, count(distinct (job, claim)), sum(lines)::bigint, sum(size)::bigint, min(at),
    pg_total_relation_size('fastq.job_log'::regclass), (select count(*) from newest) = $1::bigint
from newest
group by kind
order by 4 desc, 1
