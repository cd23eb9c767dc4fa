-- 0022 vitals: the memory, threads and processor time of each worker process, in its row; and the stacks of running jobs, when somebody asks.
-- Locks: access exclusive on process, for the new column, which has no value in any row; the beats of all hosts wait for it. Everything else is new.
-- Time: milliseconds.
--
-- The supervisor measures its processes and sends the figures with each beat, which writes these rows anyway.
alter table fastq.process add column vitals jsonb;

-- A request is a row, with the number of the process that is to answer, and null for the stacks of all that runs there. The process writes
-- its answer into the row, and whoever has asked takes the row away; others go after minutes. Nothing here is of use after a crash of the server.
create unlogged table fastq.stack (
    id          bigint generated always as identity,
    process     bigint not null,
    job         bigint,
    asked_at    timestamptz not null default clock_timestamp(),
    answered_at timestamptz,
    text        text,
    constraint stack_pkey primary key (id)
) with (fillfactor = 50);
