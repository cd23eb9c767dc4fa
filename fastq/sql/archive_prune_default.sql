-- what: deletes up to $2 finished jobs that no day's partition holds and that ended more than $1 whole days (UTC) before today.
-- called by: partitions, for the maintainer (prune), until it answers with less than $2.
-- index: job_archive_default's block ranges of finalized_at; the partition is empty or small where a maintainer runs.
-- locks: the rows.
with old as (
    delete from fastq.job_archive_default
    where ctid = any (array(
        select ctid from fastq.job_archive_default
        where finalized_at < (date_trunc('day', clock_timestamp() at time zone 'UTC') - make_interval(days => $1::int)) at time zone 'UTC'
        limit $2::bigint
    ))
    returning 1
)
select count(*) from old
