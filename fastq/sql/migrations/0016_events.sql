-- 0016 events: subscriptions of programs to the events of all processes, and the events on their way to them.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- Where nobody subscribes, both tables are empty and nothing is written. A subscription is renewed while its program reads, and runs out by
-- itself. Each process writes sheets of events for each subscription, ten a second at most, and takes its own away seconds later; so
-- the events are not logged, and a crash of the server empties their table. `start_at` is the number of events that the source had before
-- a sheet: a reader sees how many are missing between two sheets, for whatever reason.
create table fastq.subscription (
    id         bigint generated always as identity,
    begun_at   timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    filter     text not null,                                -- names, kinds, queues and jobs, as JSON
    constraint subscription_pkey primary key (id)
) with (fillfactor = 50);

create unlogged table fastq.event (
    subscription bigint not null,
    number       bigint not null,                                -- of the sheet, among those of its source
    start_at     bigint not null,
    at           timestamptz not null default clock_timestamp(), -- when it was written
    size         integer not null,                               -- events, 0: those before it are missing, or its source begins
    source       text collate "C" not null,                      -- host:pid:random
    events       text not null,                                  -- a list of [name, time, level, fields], as JSON
    constraint event_pkey primary key (subscription, source, number)
) with (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
