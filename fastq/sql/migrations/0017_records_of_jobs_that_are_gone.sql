-- 0017 records of jobs that are gone: since when the job of a record neither lives nor is a dead letter.
-- Locks: access exclusive on job_step, for the moment that it takes to note the column.   Time: milliseconds; no row is written.
--
-- The records of a job that has ended stay for as long as the archive may have the job, for it may be retried and goes on with them
-- then. Their own age does not tell that: a job may have waited for weeks before it was cancelled. The statements that end a job
-- know nothing of this table, so the leader notes the time when it first sees that the job has gone (lead/chores/forget.py), at most
-- an hour after its end, or when somebody leads again.
alter table fastq.job_step add column gone_at timestamptz;
