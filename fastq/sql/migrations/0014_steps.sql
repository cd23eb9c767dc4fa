-- 0014 steps: what jobs have done already, the times up to which they sleep and wait, and the signals that were sent to them.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- A row for each record, in place of a list on the job: an output may have 256 kB, and each change of a job's row copies it whole. The
-- meta of a job with such rows has the key `steps`, so that no other job is asked about here. The leader deletes the rows of jobs
-- that have ended (lead/chores/forget.py): no statement that ends a job knows of this table.
create table fastq.job_step (
    job     bigint not null,
    sort    text collate "C" not null,          -- step, cursor, sleep, wait, signal: each has names of its own
    name    text collate "C" not null,
    at      timestamptz not null default clock_timestamp(),
    until   timestamptz,                        -- of a sleep its end, of a wait its timeout; null for none
    took    double precision,                   -- seconds; of a step alone
    attempt integer,                            -- null for a signal
    output  json,                               -- of a step, a cursor or a signal its value; of a wait not null once its time was over
    constraint job_step_pkey primary key (job, sort, name)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
