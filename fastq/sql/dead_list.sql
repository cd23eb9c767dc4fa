-- what: up to $6 discarded jobs that ended at the time $1 with an id below $2, or before that time, and not before $3; the newest first.
--       Answers with time, id, kind, queue, cause, the last error, the job that replays it, and whether it is a step; without an error
--       for jobs that are not of kind $4 and queue $5 (null: any).
-- called by: admin/dead/lately, admin/dead/letters, admin/dead/letters_async: to group them.
-- index: dead_ended.
-- locks: none.
select finalized_at, id, kind, queue, cause,
    case when ($4::text is null or kind = $4::text) and ($5::text is null or queue = $5::text) then error end,
    replayed_by, meta #>> '{workflow,1}'::text[] is not null
from fastq.dead
where (finalized_at, id) < ($1::timestamptz, $2::bigint) and finalized_at >= $3::timestamptz
order by finalized_at desc, id desc
limit $6::bigint
