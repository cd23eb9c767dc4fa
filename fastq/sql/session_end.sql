-- what: ends the database sessions of a dead process and waits until they are gone, so that a claim on its way commits before we look, or never.
--       Only sessions that call themselves ours: a pid may be somebody else's by now.
-- called by: registrar: before it gives the jobs of a dead child back. $1 backend pids, $2 wait in milliseconds.
-- index: none.
-- locks: none.
select count(*) filter (where pg_terminate_backend(pid, $2::bigint))
from (
    select pid from pg_stat_activity
    where pid = any ($1::integer[]) and application_name like 'fastq%'
    offset 0 -- the planner may call a function of the condition before the rest of it, and this one must come last
) as ours
