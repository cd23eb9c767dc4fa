-- what: writes the args $6 of the rows of the archive's partition $1 at the addresses (ctid) $4 if they still have the digests $5; $2 and
--       $3 are the times that it holds. Answers with the addresses of those that it wrote, joined like the lists.
-- called by: admin/sealed/archived. Lists of one length, joined by E'\x1e'.
-- index: none: the addresses say where in the partition.
-- locks: the rows; rows that others have locked are skipped.
with given as materialized (
    select address, was, args
    from unnest(
        string_to_array($4::text, E'\x1e'),
        string_to_array($5::text, E'\x1e'),
        string_to_array($6::text, E'\x1e')
    ) as given (address, was, args)
), mine as (
    select job_archive.ctid as place, given.address, given.args
    from given
    join fastq.job_archive on job_archive.ctid = given.address::tid
    where job_archive.finalized_at >= $2::text::timestamptz and job_archive.finalized_at < $3::text::timestamptz
      and job_archive.tableoid = $1::bigint::oid and md5(job_archive.args::text) = given.was
    for update of job_archive skip locked
), written as (
    update fastq.job_archive
    set args = mine.args::json
    from mine
    where job_archive.ctid = mine.place and job_archive.tableoid = $1::bigint::oid
      and job_archive.finalized_at >= $2::text::timestamptz and job_archive.finalized_at < $3::text::timestamptz
    returning mine.address
)
select coalesce(string_agg(address, E'\x1e'), '') from written
