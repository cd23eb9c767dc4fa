-- 0012 progress: how far jobs are, as they tell themselves.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- Never a column of `job`: each note would be a new version of a row that claims and completions need. Only the newest note of a job is
-- kept, and it is written once a second at most, so it is not worth a table without WAL: that one could not be read on a standby,
-- where people look at jobs, too. The leader deletes the notes of jobs that have ended (lead/chores/forget.py).
create table fastq.job_progress (
    job      bigint,
    noted_at timestamptz not null default clock_timestamp(),
    fraction double precision not null,
    attempt  integer not null,
    text     text not null,
    constraint job_progress_pkey primary key (job)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
