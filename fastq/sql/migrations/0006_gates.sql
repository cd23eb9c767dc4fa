-- 0006 gates: permits for jobs that were let go, the log that tells the gatekeeper, and the values of the gates.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- The gates that a job goes through, with its keys, stand in its meta ("gates", fastq/args/meta.py) and go wherever that goes. A job
-- that waits at them is `waiting` like one that waits for a worker, and `waits_for` is the text of its gates, which begins with '['.
-- So table and indexes of jobs are as they were, and a job without gates pays nothing for them.

-- A job that was let go counts at its gates for as long as it has a row here. The statement that ends or delays it removes the row.
create table fastq.gate_permit (
    job   bigint,
    queue text collate "C" not null,
    gates text collate "C" not null,
    constraint gate_permit_pkey primary key (job)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- What the gatekeeper has to know, appended by the statement that makes it so: it reads by a cursor and deletes what it has read.
create table fastq.gate_event (
    id       bigint generated always as identity,
    queue    text collate "C" not null,
    gates    text collate "C" not null,
    jobs     integer not null,                  -- how many jobs have left, or come
    priority smallint,                          -- null: jobs of this line count no longer
    job      bigint,                            -- else: these have come to wait, and the first of them is this one
    constraint gate_event_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- Values of gates that an operator has set; they prevail over those in the code.
create table fastq.gate (
    name      text collate "C",
    at_most   integer not null,
    set_at    timestamptz not null default clock_timestamp(),
    constraint gate_pkey primary key (name),
    constraint name_is_short check (octet_length(name) between 1 and 127),
    constraint at_most_is_no_debt check (at_most >= 0)
);
