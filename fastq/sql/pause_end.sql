-- what: ends a pause and wakes the parts that then go on; an empty hint has all of them look. No row if there was no such pause.
-- called by: admin/pauses: to resume. $1 sort ('queue', 'kind', 'gate'), $2 name ('*': all queues),
--            $3 key of a gate as JSON ('': the gate's own pause), as a string of JSON in ASCII (for any encoding of a connection). $4 channel (null: no hint).
-- index: queue_pkey, pause_pkey.
-- locks: the row of the queue or of the pause.
with of_queue as (
    update fastq.queue set paused_at = null, paused_until = null, pause_reason = null
    where $1::text = 'queue' and name = $2::text and paused_at is not null
    returning name
), of_another as (
    delete from fastq.pause where sort = $1::text and name = $2::text and key = ($3::text::json #>> '{}'::text[]) returning name
), ended as (
    select name from of_queue union all select name from of_another
), woken as (
    select count(pg_notify($4::text, wake))
    from (
        select case when $1::text = 'queue' and name <> '*' then name when $1::text = 'queue' then '' when $1::text = 'kind' then '@pause'
            else '@gate' end as wake from ended
        union all select '@waiting ' || name from of_queue where name <> '*'
    ) as hint
    where $4::text is not null
)
select name, (select count from woken) from ended
