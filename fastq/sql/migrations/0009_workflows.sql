-- 0009 workflows: jobs that are enqueued together, of which some run after others, and the log that tells of their ends.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- A job that is a step of a workflow says so in its meta ("workflow": workflow and step, fastq/args/meta.py). One that runs after others
-- is `waiting` for 'workflow', without a place in an order, until the chore of the leader lets it go (fastq/lead/workflow). The tables
-- have all that this takes: neither a finished job nor the archive is ever asked, so retention and deletion strand no step. Table and
-- indexes of jobs are as they were, and a plain job pays nothing for workflows.

-- One row says how far a workflow is. Whoever adds steps, cancels or retries locks it first, and so does the chore before it reads edges.
create table fastq.workflow (
    id           bigint generated always as identity,
    name         text collate "C" not null,
    created_at   timestamptz not null default clock_timestamp(),
    cancelled_at timestamptz,                   -- its cancellation was asked for: no step is added any more
    ended_at     timestamptz,                   -- all steps have ended; null again while one of them is run once more
    steps        integer not null default 0,
    completed    integer not null default 0,
    cancelled    integer not null default 0,
    discarded    integer not null default 0,
    callbacks    jsonb,                         -- jobs to enqueue, by event; one that was enqueued is taken out
    constraint workflow_pkey primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index workflow_open on fastq.workflow (id) where ended_at is null;
create index workflow_ended on fastq.workflow (ended_at) where ended_at is not null;

create table fastq.workflow_step (
    workflow bigint,
    step     integer,                           -- from 0 on; greater than that of each step before it
    job      bigint not null,
    unmet    integer not null,                  -- the edges to this step from steps that are not passed
    state    fastq.state,                       -- how its job has ended; null: it has not
    passed   boolean not null default false,    -- its end was told to the steps after it
    fate     text collate "C",                  -- 'go', 'cancel': its job, which waits, is to be let go or cancelled; null: nothing is to be done
    kind     text collate "C" not null,         -- for people: the job is gone one day
    name     text collate "C",
    delay    double precision,                  -- seconds from when it is let go, for a step that waits
    at       timestamptz,                       -- the time at which it may start, for a step that waits
    because  jsonb,                             -- the steps whose ends have cancelled this one, the nearest first: [job, step, state]
    output   json,
    constraint workflow_step_pkey primary key (workflow, step),
    constraint fate_is_known check (fate = any ('{go,cancel}'::text[]))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create unique index workflow_step_name on fastq.workflow_step (workflow, name) where name is not null;
create index workflow_step_fate on fastq.workflow_step (workflow, step) where fate is not null;

create table fastq.workflow_edge (
    workflow bigint,
    parent   integer,
    child    integer,
    run      boolean not null,                  -- the child runs however the parent has ended
    constraint workflow_edge_pkey primary key (workflow, parent, child)
);
create index workflow_edge_child on fastq.workflow_edge (workflow, child);

-- The ends of steps, appended by the statements that end them. The chore finds workflows by a cursor over the ids, and then takes all
-- events of these: so those of one step are read in their order, also where one of them was committed late.
create table fastq.workflow_event (
    id       bigint generated always as identity,
    workflow bigint not null,
    step     integer not null,
    state    fastq.state,                       -- null: its job had ended, and is back
    output   json,
    constraint workflow_event_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index workflow_event_of on fastq.workflow_event (workflow, id);
