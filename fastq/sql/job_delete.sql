-- what: removes waiting and finished jobs for good; running ones stay. Says of each id what it was and whether it is gone.
-- called by: admin: delete. $1 ids.
-- index: job_pkey; job_archive_id (block ranges).
-- locks: the rows, in the order of their ids.
with mine as (
    select id, state from fastq.job where id = any ($1::bigint[]) order by id for update
), gone as (
    delete from fastq.job using mine
    where job.id = mine.id and mine.state <> 'running'
    returning job.id
), erased as (
    delete from fastq.job_archive where id = any ($1::bigint[]) returning id, state
)
select given.id, coalesce(mine.state, erased.state),
    case when coalesce(gone.id, erased.id) is not null then 'deleted' when mine.id is not null then 'running' else 'missing' end
from unnest($1::bigint[]) with ordinality as given (id, place)
left join mine on mine.id = given.id
left join gone on gone.id = given.id
left join erased on erased.id = given.id
order by place
