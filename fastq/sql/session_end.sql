-- what: ends database sessions and waits until they are gone, so that a claim on its way has committed before we look, or never will.
--       Only sessions that call themselves ours: a pid may be somebody else's by now. How many have ended, and how many have not yet.
-- called by: host/recovery, work/claim/unanswered: for a dead child's sessions, and for one that was cut, before the jobs of its claim are looked for.
--            $1 backend pids, $2 wait in milliseconds.
-- index: none.
-- locks: none.
select count(*) filter (where ended), count(*) filter (where not ended)
from (
    select pg_terminate_backend(pid, $2::bigint) as ended
    from (
        select pid from pg_catalog.pg_stat_activity
        where pid = any ($1::integer[]) and application_name like 'fastq%'
        offset 0 -- the planner may call a function of the condition before the rest of it, and this one must come last
    ) as ours
    offset 0 -- once for each
) as tried
