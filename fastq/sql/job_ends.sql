-- what: says which of these jobs live no longer, and how they have ended if they did within the last $2 seconds: it reads the newest
--       part of the archive, and that only if one is gone. A job with nulls has ended before, was deleted, or never was.
-- called by: awaiting/ends, awaiting/ends_async: again and again, for all the jobs that a program waits for. $1 ids.
-- index: job_pkey; job_archive_id (block ranges of ids and times; a look for each id would walk over all of them each time).
-- locks: none.
with gone as materialized (
    select unnest($1::bigint[]) as id
    except all
    select id from fastq.job where id = any ($1::bigint[])
), ended as materialized (
    select id, kind, state, attempt, finalized_at, errors, output, meta
    from fastq.job_archive
    where (select count(*) from gone) > 0
      and id >= (select min(id) from gone) and id <= (select max(id) from gone)
      and finalized_at >= (now() - ($2::float8 * interval '1 second'))
      and (id + 0) = any (array(select id from gone))
)
select gone.id, kind, state, attempt, finalized_at, to_json(errors)::text, output::text, meta::text
from gone
left join ended on ended.id = gone.id
