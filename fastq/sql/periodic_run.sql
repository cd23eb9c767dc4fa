-- what: enqueues the job of a periodic job now, outside its schedule, and wakes its queue; answers with the job's id, or with no
--       row if there is none of this name. It counts as no tick: the next tick comes as if this job had not been.
-- called by: admin/periodic. $1 name, $2 channel (null: no hint).
-- index: periodic_pkey.
-- locks: none but the new row; the commit takes the lock of NOTIFY for a moment.
with enqueued as (
    insert into fastq.job (kind, args, queue, priority, max_attempts, tags, meta)
    select kind, args, queue, priority, max_attempts, tags || array[
        'periodic:' || name, 'tick:' || to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    ], meta
    from fastq.periodic
    where name = $1::text
    returning id, queue
)
select id, case when $2::text is not null then pg_notify($2::text, queue) end from enqueued
