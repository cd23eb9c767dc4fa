-- what: pauses a queue: no job is claimed from it any more, running jobs go on. Answers with the time since when it is paused.
-- called by: admin/queues: pause. $1 queue.
-- index: queue_pkey.
-- locks: the queue's row.
insert into fastq.queue (name, paused_at)
values ($1::text, clock_timestamp())
on conflict (name) do update set paused_at = coalesce(queue.paused_at, excluded.paused_at)
returning paused_at
