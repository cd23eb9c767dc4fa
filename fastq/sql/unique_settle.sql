-- what: gives up keys that are held until their job has succeeded: those of the jobs $1, which have ended, but for jobs of
--       which the archive tells that they were cancelled or discarded.
-- called by: enqueue/uniques, admin/exports/importing: when an enqueue has met such a key. $1 ids, joined by a record separator.
-- index: unique_key_success; job_pkey; job_archive_id (block ranges).
-- locks: the keys, in their order.
with ended as (
    select given.id
    from unnest(string_to_array($1::text, E'\x1e')::bigint[]) as given (id)
    cross join lateral (select count(*) as jobs from fastq.job where job.id = given.id) as living
    cross join lateral (
        select count(*) as jobs from fastq.job_archive where job_archive.id = given.id and job_archive.state <> 'completed'
    ) as failed
    where living.jobs = 0 and failed.jobs = 0
), settled as (
    select key from fastq.unique_key
    where until = 'success' and job_id = any (array(select id from ended))
    order by key || ''::bytea  -- not by the index of keys from end to end, for the sake of their order
    for update
), gone as (
    delete from fastq.unique_key where key = any (array(select key from settled))
    returning 1
)
select count(*) from gone
