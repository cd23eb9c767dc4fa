-- what: looks at $5 keys of unique jobs, after the key $4 (hexadecimal), and deletes those that were given up: by time, or
--       because their job has started or ended. Says the last key, at how many it looked, and how many went. Those that are
--       held until success are unique_sweep_success's.
-- called by: lead/unique/sweep: it walks through the table so. $1-$3 fence.
-- index: unique_key_pkey; job_pkey; lease_pkey.
-- locks: the lease's row, for key share; the keys that it deletes; one that somebody has locked is taken over, and stays.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select key, job_id, since, until, expires_at
    from fastq.unique_key
    where exists (select from held) and key > decode($4::text, 'hex')
    order by key
    limit $5::bigint
), idle as (
    select own.key
    from looked
    left join lateral (select id, attempted_at from fastq.job where job.id = looked.job_id limit 1) as job on true
    cross join lateral (
        select key from fastq.unique_key where unique_key.key = looked.key and unique_key.since = looked.since
          and (looked.expires_at <= statement_timestamp()
               or looked.until = any ('{start,end}'::text[]) and (job.id is null or looked.until = 'start' and job.attempted_at is not null))
        for update skip locked
    ) as own
), gone as (
    delete from fastq.unique_key where key = any (array(select key from idle))
    returning 1
)
select (select count(*) from held), (select encode(key, 'hex') from looked order by key desc limit 1), (select count(*) from looked),
    (select count(*) from gone)
