-- what: gives up the key $1 (hexadecimal) of the job $2: the next enqueue with this key makes a job, whatever becomes of that
--       one. Says whether that job held it.
-- called by: admin/unique.
-- index: unique_key_pkey.
-- locks: the key; it waits for a transaction that takes it over.
with gone as (
    delete from fastq.unique_key where key = decode($1::text, 'hex') and job_id = $2::bigint
    returning 1
)
select count(*) from gone
