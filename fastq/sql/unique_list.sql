-- what: the keys of unique jobs from $1 to $2 (hexadecimal), longest held first, $3 at most, each with the job that holds it.
--       Keys that were given up and are not swept yet are left out.
-- called by: admin/unique.
-- index: unique_key_pkey; job_pkey; job_archive_id (block ranges).
-- locks: none.
with known as (
    select unique_key.*, coalesce(job.state, ended.state)::text as state, coalesce(job.kind, ended.kind) as kind,
        coalesce(job.args, ended.args)::text as args_json,
        not coalesce(unique_key.expires_at <= statement_timestamp(), false) and (
            unique_key.until = 'time'
            or job.id is not null and (unique_key.until <> 'start' or job.attempted_at is null)
            or job.id is null and unique_key.until = 'success' and ended.state <> 'completed'
        ) as held
    from fastq.unique_key
    left join fastq.job on job.id = unique_key.job_id
    left join lateral (
        select (array_agg(state))[1] as state, (array_agg(kind))[1] as kind, (array_agg(args))[1] as args
        from fastq.job_archive where job.id is null and job_archive.id = unique_key.job_id
    ) as ended on true
    where unique_key.key >= decode($1::text, 'hex') and unique_key.key <= decode($2::text, 'hex')
)
select encode(key, 'hex') as key, job_id, state, kind, until, since, expires_at, args_json
from known
where held
order by since, key
limit $3::bigint
