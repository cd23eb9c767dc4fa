-- what: lets a paused queue go on and wakes the processes that work it; no row if it was not paused.
-- called by: admin/queues: resume. $1 queue, $2 channel (null: no hint).
-- index: queue_pkey.
-- locks: the queue's row.
with resumed as (
    update fastq.queue set paused_at = null where name = $1::text and paused_at is not null returning name
)
select name, case when $2::text is not null then pg_notify($2::text, name) end,
    case when $2::text is not null then pg_notify($2::text, '@waiting ' || name) end
from resumed
