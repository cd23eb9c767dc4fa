-- what: keeps the rows of this supervisor's processes alive (and makes or remakes them); answers with the jobs among theirs whose cancellation was asked for.
-- called by: registrar: each beat. Arrays: $1 ids, $2 pids. $3 host, $4 supervisor, $5 queues, $6 ttl in seconds,
--            $7 domain, $8 periodic jobs that its app declares.
-- index: process_pkey; job_cancel_requested.
-- locks: the rows of this supervisor's own processes.
with beaten as (
    insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain, periodic)
    select id, $3::text, pid, $4::text, $5::text, clock_timestamp() + make_interval(secs => $6::float8), $7::text, $8::text[]
    from unnest($1::bigint[], $2::integer[]) as given (id, pid)
    on conflict (id) do update set expires_at = excluded.expires_at, pid = excluded.pid
)
select job.id, job.claim >> 32
from fastq.job
where job.cancel_requested and job.state = 'running' and job.claim >> 32 = any ($1::bigint[])
