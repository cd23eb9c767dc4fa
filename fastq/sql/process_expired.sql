-- what: the processes that have given no sign of life for their time to live, and in how many seconds the next one would be due
--       (null: there is none).
-- called by: rescue, to know whether the look at the running jobs is worth it, and when to ask again.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select coalesce(array_agg(id) filter (where expires_at < clock_timestamp()), '{}'),
    extract(epoch from min(expires_at) filter (where expires_at >= clock_timestamp()) - clock_timestamp())::float8
from fastq.process
