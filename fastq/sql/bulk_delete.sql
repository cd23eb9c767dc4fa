-- what: removes jobs for good as job_delete does: the living ones $1 that do not run, and the finished ones with the ids $2 at the row addresses
--       (ctid) $3 that ended from $4 on and before $5, all on one day. Answers for each id with 'deleted', 'running' or 'gone'.
-- called by: lead/bulk/verbs: for an operation. $6 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey; dead_pkey; none of the archive: the addresses say where in the day's partition.
-- locks: the living rows, then the finished ones, each in the order of their ids: like job_delete.
with mine as (
    select id, state from fastq.job where id = any ($1::bigint[]) order by id for update
), gone as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.state <> 'running'
    returning job.id, job.meta
), noted as (
    insert into fastq.workflow_event (workflow, step, state)
    select (meta #>> '{workflow,0}'::text[])::bigint, (meta #>> '{workflow,1}'::text[])::int, 'cancelled'
    from gone where meta #>> '{workflow,1}'::text[] is not null
    returning id
), kept as (
    select job_archive.id, job_archive.ctid as place
    from unnest($2::bigint[], $3::text[]) as given (id, address)
    join fastq.job_archive on job_archive.ctid = given.address::tid and job_archive.id = given.id
    where job_archive.finalized_at >= $4::timestamptz and job_archive.finalized_at < $5::timestamptz
      and (select count(*) from mine) is not null  -- not before those are locked
    order by job_archive.id
    for update of job_archive
), erased as (
    delete from fastq.job_archive
    using kept as one
    where job_archive.ctid = one.place and job_archive.id = one.id
      and job_archive.finalized_at >= $4::timestamptz and job_archive.finalized_at < $5::timestamptz
    returning job_archive.id, job_archive.state, job_archive.meta
), raised as (
    delete from fastq.dead where id = any (array(select id from erased))
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from gone union all select id, meta from erased) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), woken as (
    select count(pg_notify($6::text, wake))
    from (select '@gate' as wake from freed union select '@workflow' from noted) as hint where $6::text is not null
)
select given.id, case when coalesce(gone.id, erased.id) is not null then 'deleted' when mine.id is not null then 'running' else 'gone' end
from (select unnest($1::bigint[]) as id union all select unnest($2::bigint[])) as given
left join mine on mine.id = given.id
left join gone on gone.id = given.id
left join erased on erased.id = given.id
cross join woken
