-- what: looks at $5 keys that are held until their job has succeeded, after the job $4, and deletes those of jobs that have
--       ended, but for jobs of which the archive tells that they were cancelled or discarded. Says the last job's id, at how
--       many it looked, and how many went.
-- called by: lead/unique/sweep: it walks through them so. $1-$3 fence.
-- index: unique_key_success; job_pkey; job_archive_id (block ranges): ids that follow one another lie together there;
--        lease_pkey.
-- locks: the lease's row, for key share; the keys that it deletes; one that somebody has locked is taken over, and stays.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), looked as materialized (
    select key, job_id, since
    from fastq.unique_key
    where exists (select from held) and until = 'success' and job_id > $4::bigint
    order by job_id
    limit $5::bigint
), ended as materialized (
    select looked.key, looked.job_id, looked.since
    from looked
    left join lateral (select id from fastq.job where job.id = looked.job_id limit 1) as job on true
    where job.id is null
), failed as materialized (
    select id from fastq.job_archive
    where id >= (select min(job_id) from ended) and id <= (select max(job_id) from ended) and state <> 'completed'
), idle as (
    select own.key
    from ended
    cross join lateral (
        select key from fastq.unique_key where unique_key.key = ended.key and unique_key.since = ended.since for update skip locked
    ) as own
    where not ended.job_id in (select id from failed)
), gone as (
    delete from fastq.unique_key where key = any (array(select key from idle))
    returning 1
)
select (select count(*) from held), (select max(job_id) from looked), (select count(*) from looked), (select count(*) from gone)
