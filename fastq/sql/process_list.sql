-- what: the worker processes, by host and supervisor, each with whether it lives. Those that a supervisor holds ready for its next child are
--       left out, and those that ended more than a minute ago.
-- called by: admin/running/hosts: list_processes. $1 how many at most.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select id, host, pid, supervisor, string_to_array(queues, ',') as queues, domain, started_at, expires_at,
    expires_at > clock_timestamp() as lives, kinds, vitals
from fastq.process
where pid::text <> split_part(supervisor, ':', 2) and expires_at > (clock_timestamp() - make_interval(secs => 60))
order by host, supervisor, id
limit $1::bigint
