-- what: removes waiting and finished jobs for good; running ones stay. Answers for each id with its state and whether it is gone.
-- called by: admin/changes: delete. $1 ids.
-- index: job_pkey; job_archive_id (block ranges).
-- locks: the living rows, then the finished ones, each in the order of their ids: like job_rerun, or the two would wait for one
--        another.
with mine as (
    select id, state from fastq.job where id = any ($1::bigint[]) order by id for update
), gone as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.state <> 'running'
    returning job.id
), kept as (
    select id from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from mine) is not null  -- not before those are locked
    order by id
    for update
), erased as (
    delete from fastq.job_archive
    where id = any ($1::bigint[]) and (select count(*) from kept) is not null
    returning id, state
)
select given.id, coalesce(mine.state, erased.state),
    case when coalesce(gone.id, erased.id) is not null then 'deleted' when mine.id is not null then 'running' else 'missing' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join gone on gone.id = given.id
left join erased on erased.id = given.id
order by nth
