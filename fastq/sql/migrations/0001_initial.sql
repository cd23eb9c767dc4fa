-- 0001 initial: the living jobs, the archive of the finished ones, queues, processes, the leader.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- The rule that shapes `job`: a claim changes nothing that an index can see. No index column and no index predicate
-- names state, claim, attempt or attempted_at, so the claim's UPDATE is heap-only (HOT) and touches no index. That is
-- why "ready" is told by seq and "due" by scheduled_at, each null when it does not apply, instead of by the state.

create type fastq.state as enum (
    'scheduled', 'available', 'running', 'retryable',   -- the living: table job
    'completed', 'cancelled', 'discarded'               -- the finished: table job_archive
);

-- Order of becoming available. Cached per session it would hand out numbers out of time order, so the cache stays 1.
create sequence fastq.job_seq;

-- Rules of single columns are domains: a domain is checked when a value comes in, a table's check at every claim again.
create domain fastq.priority as smallint constraint priority_is_1_to_4 check (value between 1 and 4);
create domain fastq.max_attempts as smallint constraint max_attempts_is_positive check (value > 0);
create domain fastq.kind as text collate "C"
    constraint kind_is_short_and_plain check (octet_length(value) between 1 and 127 and strpos(value, E'\x1e') = 0);
create domain fastq.queue_name as text collate "C"
    constraint queue_is_short check (octet_length(value) between 1 and 63);

-- Order of columns: what is never null and of fixed width first, so that Postgres knows its place in the row without walking.
create table fastq.job (
    id               bigint generated always as identity,
    created_at       timestamptz not null default clock_timestamp(),
    seq              bigint default nextval('fastq.job_seq'),  -- null while scheduled or retryable
    state            fastq.state not null default 'available',
    priority         fastq.priority not null default 1,
    attempt          smallint not null default 0,
    max_attempts     fastq.max_attempts not null default 25,
    crashes          smallint not null default 0,  -- deaths of its process that it may have caused
    cancel_requested boolean not null default false,
    queue            fastq.queue_name not null default 'default',
    kind             fastq.kind not null,
    args             json not null default '{}',   -- json, not jsonb: the worker reads the very bytes that were enqueued
    claim            bigint,                    -- process << 32 | number of the claim in it; null unless running
    attempted_at     timestamptz,
    scheduled_at     timestamptz,               -- null unless scheduled or retryable
    tags             text[],
    errors           jsonb,                     -- one object per failed attempt, oldest first
    constraint job_pkey primary key (id)
) with (
    -- Measured: at 90 a claim costs 8.6 us, at 60 5.6, at 45 2.3: there must be room beside each row for its next version.
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.05,      -- rows die as fast as they come: vacuum by the thousand, not by the fifth
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.5,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0            -- a queue's table must be vacuumed at once, it is small or in trouble
);
alter table fastq.job alter column tags set storage main;

create index job_ready on fastq.job (queue, priority, seq) where seq is not null;
create index job_due on fastq.job (scheduled_at) where scheduled_at is not null;
create index job_cancel_requested on fastq.job (id) where cancel_requested;

create table fastq.job_archive (
    id           bigint not null,
    created_at   timestamptz not null,
    attempted_at timestamptz,
    finalized_at timestamptz not null,
    state        fastq.state not null,
    priority     smallint not null,
    attempt      smallint not null,
    max_attempts smallint not null,
    crashes      smallint not null,
    queue        text collate "C" not null,
    kind         text collate "C" not null,
    args         json not null,
    tags         text[],
    errors       jsonb,
    output       json
) partition by range (finalized_at);

-- Ids come nearly in the order of time, so a block-range index finds one job in a few pages and costs an insert nothing
-- (a B-tree costs 1.5 us per job, measured). The partitions of the days are made by the maintainer; what it has not
-- made yet lands here and is never refused.
create index job_archive_id on fastq.job_archive using brin (id, finalized_at) with (pages_per_range = 16, autosummarize = on);
create table fastq.job_archive_default partition of fastq.job_archive default;

create table fastq.queue (
    name       text collate "C" primary key,
    paused_at  timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    constraint name_is_short check (octet_length(name) between 1 and 63)
);

-- One row per worker process, kept alive by its supervisor's beat. Numbers are taken by supervisors 64 at a time.
create sequence fastq.process_number increment by 64 maxvalue 2147483584 cycle;
create table fastq.process (
    id         bigint primary key,
    host       text not null,
    pid        integer not null,
    supervisor text not null,                   -- host:pid:random of its supervisor
    queues     text not null,
    started_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
) with (fillfactor = 50);

create table fastq.leader (
    domain     text primary key,
    holder     text not null default '',        -- '' = nobody
    term       bigint not null default 0,
    expires_at timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into fastq.leader (domain) values ('default');
