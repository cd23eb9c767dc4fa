-- what: how many processes have given no sign of life for their time to live, and in how many seconds the next one of another
--       supervisor than $1 would be due (null: there is none).
-- called by: maintainer (rescue), to know whether the look at all running jobs is worth it, and when to ask again.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select count(*) filter (where expires_at < clock_timestamp()),
    extract(epoch from min(expires_at) filter (where supervisor <> $1::text and expires_at >= clock_timestamp()) - clock_timestamp())::float8
from fastq.process
