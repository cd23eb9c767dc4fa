-- what: ends the pauses of which the time has come, and wakes the parts that then go on. Answers with their number; sort, name and key
--       of each; whether some were left since their rows are locked; and the seconds until the next one ends, null if none has an end.
-- called by: lead/chores/pauses. $1-$3 fence, $4 channel (null: no hint).
-- index: lease_pkey, queue_pkey, pause_pkey; else none, for there are few pauses.
-- locks: the lease's row, for key share; the rows of the queues and pauses; locked ones are skipped.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), now as materialized (
    select clock_timestamp() as at
), due_queue as (
    select name from fastq.queue
    where exists (select from held) and paused_at is not null and paused_until <= (select at from now)
    for update skip locked
), due_other as (
    select sort, name, key from fastq.pause
    where exists (select from held) and paused_until <= (select at from now)
    for update skip locked
), of_queue as (
    update fastq.queue set paused_at = null, paused_until = null, pause_reason = null
    from due_queue where queue.name = due_queue.name
    returning queue.name
), of_another as (
    delete from fastq.pause using due_other
    where pause.sort = due_other.sort and pause.name = due_other.name and pause.key = due_other.key
    returning pause.sort, pause.name, pause.key
), ended as (
    select 'queue' as sort, name::text as name, '' as key from of_queue
    union all
    select sort::text, name::text, key::text from of_another
), woken as (
    select count(pg_notify($4::text, wake))
    from (
        select case when sort = 'queue' and name <> '*' then name when sort = 'queue' then '' when sort = 'kind' then '@pause'
            else '@gate' end as wake from ended
        union select '@waiting ' || name from ended where sort = 'queue' and name <> '*'
    ) as hint
    where $4::text is not null
), all_ends as (
    select paused_until from fastq.queue where paused_at is not null union all select paused_until from fastq.pause
)
select (select count(*) from held), (select count(*) from ended),
    coalesce((select array_agg(sort) from ended), '{}'), coalesce((select array_agg(name) from ended), '{}'),
    coalesce((select array_agg(key) from ended), '{}'),
    (select count(*) from all_ends where paused_until <= (select at from now)) > (select count(*) from ended),
    (select extract(epoch from (min(paused_until) - (select at from now))) from all_ends where paused_until > (select at from now)),
    (select count from woken)
