-- 0008 pauses: until when and why a queue is paused; pauses of kinds, of gates and of keys at gates.
-- Locks: queue, exclusively, for milliseconds; the rest is new.   Time: milliseconds.

-- A claim looks at paused_at of its queue's row and of the row '*', which stands for every queue; no queue can have that name.
alter table fastq.queue
    add column paused_until timestamptz,        -- null: until somebody resumes it
    add column pause_reason text;

-- The other pauses. Processes read those of kinds before they claim, the gatekeeper reads those of gates; no statement of a job does.
create table fastq.pause (
    sort         text collate "C",              -- 'kind' or 'gate'
    name         text collate "C",
    key          text collate "C",              -- of a gate: JSON, as in the meta of jobs; '': every key
    paused_at    timestamptz not null default clock_timestamp(),
    paused_until timestamptz,
    reason       text,
    constraint pause_pkey primary key (sort, name, key),
    constraint sort_is_known check (sort = any ('{kind,gate}'::text[])),
    constraint name_is_short check (octet_length(name) between 1 and 255),
    constraint key_is_short check (octet_length(key) <= 300 and (key = '' or sort = 'gate'))
);
