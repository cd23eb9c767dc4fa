-- what: deletes finished jobs: those with the ids $7 at the row addresses (ctid) $8 that ended from $5 on and before $6, all on one day. Says how many.
--       Discarded ones are counted by kind, cause and day.
-- called by: lead/chores/prune. $1-$3 fence, $4 queues (null or empty: every queue).
-- index: none: the addresses say where in the day's partition; lease_pkey; dead_pkey.
-- locks: the lease's row, for key share; the rows; those of the counts, in their order.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), pruned as (
    delete from fastq.job_archive
    using unnest($7::bigint[], $8::text[]) as given (id, address)
    where exists (select from held)
      and job_archive.ctid = given.address::tid and job_archive.id = given.id
      and job_archive.finalized_at >= $5::timestamptz and job_archive.finalized_at < $6::timestamptz
      and (coalesce(cardinality($4::text[]), 0) = 0 or job_archive.queue = any ($4::text[]))
    returning job_archive.id, job_archive.state
), raised as (
    delete from fastq.dead
    where id = any (array(select id from pruned where state = 'discarded'))
    returning kind, cause, finalized_at
), counted as (
    insert into fastq.dead_count (kind, cause, day, jobs)
    select kind, cause, (finalized_at at time zone 'UTC')::date, count(*)
    from raised
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (kind, cause, day) do update set jobs = dead_count.jobs + excluded.jobs
    returning 1
)
select (select count(*) from held), (select count(*) from pruned), (select count(*) from counted)
