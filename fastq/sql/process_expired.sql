-- what: the processes whose supervisor has given no sign of life for their time to live.
-- called by: maintainer (rescue), to know whether the look at all running jobs is worth it.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select id from fastq.process where expires_at < clock_timestamp()
