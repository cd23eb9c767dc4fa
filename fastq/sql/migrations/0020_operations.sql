-- 0020 operations: changes of many jobs, done by the leader, and the record of all changes by operators.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- An operation is a row: the filter, the change, and how far it is. The schema's leader works through it, a chunk at a time; the chunk and
-- the place behind it are committed together, so the next leader goes on where the last one was. No job and no statement of a job knows of it.
create table fastq.operation (
    id               bigint generated always as identity,
    verb             text collate "C" not null,
    words            text not null,             -- the filter
    change           json not null default '{}',  -- of 'edit' and 'move': the new values
    state            text collate "C" not null default 'waiting',
    asked_by         text not null,
    created_at       timestamptz not null default clock_timestamp(),
    started_at       timestamptz,
    ended_at         timestamptz,
    cancel_requested boolean not null default false,
    expected         bigint not null,           -- jobs that fitted when it was made, as far as they were counted
    at_least         boolean not null,          -- they were not counted to their end
    done             bigint not null default 0,
    skipped          jsonb not null default '{}',  -- how many jobs were left as they are, by reason
    place            text not null,             -- up to which all jobs were looked at: a cursor of the search
    error            text,
    constraint operation_pkey primary key (id),
    constraint verb_is_known check (verb = any ('{retry,cancel,delete,move,edit}'::text[])),
    constraint operation_state_is_known check (state = any ('{waiting,running,done,cancelled,failed}'::text[]))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index operation_open on fastq.operation (id) where ended_at is null;

-- A row for each change that an operator has made, of single jobs or of many. Written in the transaction of the change.
create table fastq.audit (
    id        bigint generated always as identity,
    at        timestamptz not null default clock_timestamp(),
    asked_by  text not null,                    -- as the program said it
    role      text not null default current_user,  -- of the database
    verb      text collate "C" not null,
    words     text,                             -- the filter, of an operation
    job       bigint,                           -- the job, of a single change
    operation bigint,
    jobs      bigint not null,                  -- that were changed; of an operation once it has ended
    change    json,
    constraint audit_pkey primary key (id)
);
create index audit_at on fastq.audit (at);
