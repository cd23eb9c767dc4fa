-- 0002 leases: one lease row per name instead of one leader, periodic jobs, the chores' record, the guard of side effects.
-- Locks: lease and process, exclusively, for milliseconds; job, against writers, while the index job_due is built anew
--        (it holds scheduled and retryable jobs only).   Time: milliseconds, and about a second per million of those jobs.

-- A lease is held by one supervisor (or one singleton) at a time. What a name means is said by its prefix:
-- 'leader:DOMAIN', 'schema' (the chores that concern all domains), 'singleton:NAME', 'user:NAME'.
alter table fastq.leader rename to lease;
alter table fastq.lease rename constraint leader_pkey to lease_pkey;
alter table fastq.lease rename column domain to name;
update fastq.lease set name = 'leader:' || name;
alter table fastq.lease
    add column ttl         double precision not null default 10,  -- the holder's, in seconds
    add column acquired_at timestamptz,
    add column resign_term bigint,              -- the term that was asked to resign
    add column queues      text[],              -- what a named domain maintains; null: the default domain, every queue
    add constraint name_is_short check (octet_length(name) between 1 and 200 and name ~ '\S'),
    add constraint holder_is_short check (octet_length(holder) <= 127 and (holder = '' or holder ~ '\S')),
    -- Also what makes the fence strict: who takes the lease changes a key, and so waits for the statements of the old term,
    -- which hold the row `for key share`; who renews it changes none, and waits for nobody.
    add constraint lease_name_term unique (name, term);

-- Led by queue: a domain's leader looks for the due jobs of its own queues, however many wait in others.
drop index fastq.job_due;
create index job_due on fastq.job (queue, scheduled_at) where scheduled_at is not null;

alter table fastq.process
    add column domain   text not null default 'default',
    add column periodic text[] not null default '{}';  -- the periodic jobs that its app declares, each 'NAME=HASH'

-- One row per chore of a lease: what `fastq leader` shows. Written by the leader a few times a minute, however often a chore runs.
create table fastq.chore (
    lease   text not null,
    name    text not null,
    term    bigint not null,
    ran_at  timestamptz,                        -- start of the last run
    took    double precision,                   -- seconds of the last run
    runs    bigint not null default 0,          -- in this term
    changed bigint not null default 0,          -- rows that they changed
    fenced  bigint not null default 0,          -- statements that came too late and did nothing, in all terms
    error   text,                               -- of the last run, if it failed
    constraint chore_pkey primary key (lease, name)
) with (fillfactor = 50);

create table fastq.periodic (
    name         text collate "C",
    schedule     text not null,                 -- 'cron 0 9 * * mon-fri' or 'every 30'
    tz           text not null default 'UTC',   -- IANA name
    missed       text not null default 'once',  -- what becomes of ticks that nobody was there for
    backfill     integer not null default 0,    -- the most of them that are made up for, where missed = 'backfill'
    hash         text not null,                 -- of the definition, to compare what programs declare
    kind         fastq.kind not null,
    args         json not null,
    queue        fastq.queue_name not null,
    priority     fastq.priority not null,
    max_attempts fastq.max_attempts not null,
    tags         text[],
    defined_at   timestamptz not null default clock_timestamp(),
    paused_at    timestamptz,
    last_tick    timestamptz,
    next_tick    timestamptz,                   -- null: to be computed by the leader
    error        text,                          -- why the last tick could not be enqueued
    constraint periodic_pkey primary key (name),
    constraint missed_is_a_policy check (missed in ('skip', 'once', 'backfill')),
    constraint name_is_short check (octet_length(name) between 1 and 127)
) with (fillfactor = 50);

-- A tick is enqueued once, whoever leads, and though two should: its row and its job are one statement.
create table fastq.periodic_tick (
    name   text collate "C",
    tick   timestamptz,
    job_id bigint not null,
    constraint periodic_tick_pkey primary key (name, tick)
);

-- An item that was acted upon under a name, so that nobody acts upon it again.
create table fastq.once (
    name text collate "C",
    item text collate "C",
    term bigint,
    at   timestamptz not null default clock_timestamp(),
    constraint once_pkey primary key (name, item),
    constraint name_is_short check (octet_length(name) between 1 and 200),
    constraint item_is_short check (octet_length(item) between 1 and 512)
);
