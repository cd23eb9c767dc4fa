-- 0019 statistics: what worker processes know of the jobs that they have ended, by the minute, the hour and the day.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.

-- A count is in one row at a time. Worker processes append rows of grain 0; the leader turns these into one row for each minute,
-- and later the minutes into hours and the hours into days: it deletes and inserts, and changes no row.
create table fastq.stat (
    at           timestamptz not null,          -- when the minute, the hour or the day (UTC) began
    grain        smallint not null,             -- 0: a minute, as a process has told it; 1: a minute; 2: an hour; 3: a day
    queue        text collate "C" not null,
    kind         text collate "C" not null,
    outcome      text collate "C" not null,     -- the state after the attempt; or 'enqueued', of jobs that have ended since
    jobs         bigint not null,
    runs         bigint not null,               -- attempts of which the running time was taken
    run_seconds  float8 not null,               -- of all attempts for which these stand
    waits        bigint not null,               -- attempts of which the waiting time was taken
    wait_seconds float8 not null,
    bins         smallint[] not null,           -- fastq/statistics/bins.py says which times are in a bin; waiting times from 256 on
    counts       bigint[] not null              -- attempts in each of these bins
) with (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index stat_at on fastq.stat (grain, at, queue, kind, outcome);

-- When seqs were given out. Of a promotion: from first_seq to last_seq, to jobs of which the last was due at that time. Others, with
-- a last_seq of null, say that first_seq and all behind it were given out after that time.
create table fastq.stat_due (
    first_seq bigint not null,
    last_seq  bigint,
    at        timestamptz not null
) with (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index stat_due_seq on fastq.stat_due (first_seq);
create index stat_due_at on fastq.stat_due (at);
insert into fastq.stat_due (first_seq, at) select last_value + is_called::int, statement_timestamp() from fastq.job_seq;
