-- 0007 unique keys: which job holds a key, so that an enqueue with the same key makes no second one.
-- Locks: none but those of the new table. Time: milliseconds.

-- A row says that a job holds a key, as long as that job is what `until` asks for: 'start', not begun; 'end', living; 'success',
-- living, or ended without success; 'time', anything. So a key is given up without a statement: by the claim, or by the end of the
-- job itself, whichever statement ends it. No row is written for that, and none can be left behind: one whose key was given up is
-- taken over by the next enqueue, or deleted by a sweep (lead/unique/). Only enqueueing, and running a finished job once more, look
-- at a key or change it.
create table fastq.unique_key (
    key        bytea not null,                  -- a digest (fastq/args/unique.py)
    job_id     bigint not null,
    since      timestamptz not null,            -- later with each holder, so that two statements never take over the same row
    until      text collate "C" not null,
    expires_at timestamptz,                     -- null: the key is not held for a time
    constraint unique_key_pkey primary key (key),
    constraint until_is_known check (until = any ('{start,success,end,time}'::text[]))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- For the sweep: whether the holder succeeded stands in the archive, which is read by ranges of ids.
create index unique_key_success on fastq.unique_key (job_id) where until = 'success';
