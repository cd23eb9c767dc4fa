-- what: ends the database sessions of a dead process and waits until they are gone, so that a claim on its way commits before we look, or never.
-- called by: supervisor, before it gives the jobs of a dead child back. $1 backend pids, $2 wait in milliseconds.
-- index: none.
-- locks: none.
select count(*) from unnest($1::integer[]) as gone (pid)
where exists (select from pg_stat_activity as activity where activity.pid = gone.pid and activity.application_name like 'fastq%')
  and pg_terminate_backend(gone.pid, $2::bigint)
