-- 0015 job logs: what jobs have logged and printed.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- Never a column of `job`, and not a row for each log line: a sheet has up to 8 kB of them, so an attempt has some ten rows at most,
-- written once and never changed. `start_at` is the number of bytes that the attempt had told before, so a reader sees what is missing
-- between two sheets. An attempt is named by its claim: one that does not count has the number of the next one.
create table fastq.job_log (
    job      bigint not null,
    claim    bigint not null,
    start_at bigint not null,
    at       timestamptz not null default clock_timestamp(), -- when it was written
    attempt  integer not null,
    size     integer not null,                               -- bytes, as its attempt counts them
    lines    integer not null,
    ended    boolean not null,                               -- nothing comes after it
    kind     text collate "C" not null,
    text     text not null,                                  -- TIME, LEVEL, SOURCE and TEXT of each log line, a tab between them
    constraint job_log_pkey primary key (job, claim, start_at)
) with (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- The leader deletes the oldest ones, and goes on from where it was: it does not walk over those that it has deleted.
create index job_log_at on fastq.job_log (at);
