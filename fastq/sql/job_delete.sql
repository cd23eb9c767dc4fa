-- what: removes waiting and finished jobs for good; running ones stay. A discarded one that held its keys gives them up. Answers for each id with its state and whether it is gone.
-- called by: admin/bulk/single, admin/changes: delete. $1 ids.
-- index: job_pkey; job_archive_id (block ranges); gate_permit_pkey.
-- locks: the living rows, then the finished ones, each in the order of their ids: like job_rerun, or the two would wait for one
--        another.
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
    select id from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from mine) is not null  -- not before those are locked
    order by id
    for update
), erased as (
    delete from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from kept) is not null
    returning id, state, meta
), raised as (
    delete from fastq.dead where id = any (array(select id from erased))
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, meta from gone union all select id, meta from erased) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
)
select given.id, coalesce(mine.state, erased.state),
    case when coalesce(gone.id, erased.id) is not null then 'deleted' when mine.id is not null then 'running' else 'missing' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join gone on gone.id = given.id
left join erased on erased.id = given.id
order by nth
