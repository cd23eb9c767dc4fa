-- what: the requests that process $1 has not answered, $2 at most: id, and the job that is meant (null: all that runs there). Not those of more
--       than a minute ago: nobody waits for them any more.
-- called by: work/stacks: upon the supervisor's word.
-- index: none: the table has as many rows as people ask at once.
-- locks: none.
select id, job
from fastq.stack
where process = $1::bigint and answered_at is null and asked_at > (clock_timestamp() - interval '1 minute')
order by id
limit $2::bigint
