-- what: writes the args $3 of the jobs $1 if they do not run, and their args still have the digests $2. Answers with the ids of
--       those that it wrote, joined like the lists.
-- called by: admin/sealed/rotation. Lists of one length, joined by E'\x1e'.
-- index: job_pkey.
-- locks: the rows, in the order of their ids; rows that others have locked are skipped.
with given as materialized (
    select id, was, args
    from unnest(
        string_to_array($1::text, E'\x1e')::bigint[],
        string_to_array($2::text, E'\x1e'),
        string_to_array($3::text, E'\x1e')
    ) as given (id, was, args)
), mine as (
    select job.id, given.args
    from given
    join fastq.job on job.id = given.id
    where job.state <> 'running' and md5(job.args::text) = given.was
    order by job.id
    for update of job skip locked
), written as (
    update fastq.job
    set args = mine.args::json
    from mine
    where job.id = mine.id
    returning job.id::text as written
)
select coalesce(string_agg(written, E'\x1e'), '') from written
