-- what: all pauses: sort, name ('*': all queues), key as JSON or '', since when, until when (null: no end), and the reason.
-- called by: admin/pauses: to list them.
-- index: none: as many rows as there are pauses, and queues that were paused lately.
-- locks: none.
select 'queue' as sort, name::text as name, '' as key, paused_at, paused_until, pause_reason as reason
from fastq.queue where paused_at is not null
union all
select sort::text, name::text, key::text, paused_at, paused_until, reason from fastq.pause
order by sort, name, key
