-- what: the keys of unique jobs from $1 to $2 (hexadecimal), longest held first, $3 at most, each with the job that holds it. The first $4 are
--       looked at: a key is a digest, so these are any. Keys that were given up and are not swept yet are left out.
-- called by: admin/unique.
-- index: unique_key_pkey; job_pkey; job_archive_id (block ranges), of the days since a key was taken: its job has ended later. They are asked
--        for those jobs alone that are listed, since the keys come in their order.
-- locks: none.
select encode(known.key, 'hex') as key, known.job_id, coalesce(known.state, ended.state)::text as state, coalesce(known.kind, ended.kind) as kind,
    known.until, known.since, known.expires_at, coalesce(known.args, ended.args)::text as args_json
from (
    select looked.*, job.id as living, job.state, job.kind, job.args
    from (
        select * from fastq.unique_key
        where unique_key.key >= decode($1::text, 'hex') and unique_key.key <= decode($2::text, 'hex')
        order by unique_key.key
        limit $4::bigint
    ) as looked
    left join lateral (select * from fastq.job where job.id = looked.job_id limit 1) as job on true  -- one by one, whatever the planner knows
    where not coalesce(looked.expires_at <= statement_timestamp(), false) and (
        looked.until = 'time'
        or job.id is not null and (looked.until <> 'start' or job.attempted_at is null)
        or job.id is null and looked.until = 'success'
    )
    order by looked.since, looked.key
    offset 0
) as known
left join lateral (
    select (array_agg(job_archive.state))[1] as state, (array_agg(job_archive.kind))[1] as kind, (array_agg(job_archive.args))[1] as args
    from fastq.job_archive
    where known.living is null and job_archive.id = known.job_id and job_archive.finalized_at >= known.since
) as ended on true
where known.living is not null or known.until = 'time' or ended.state <> 'completed'
order by known.since, known.key
limit $3::bigint
