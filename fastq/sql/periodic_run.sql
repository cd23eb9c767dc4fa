-- what: enqueues the job of a periodic job now, outside its schedule, and wakes its queue; answers with the job's id, or with no
--       row if there is none of this name. It counts as no tick: the next tick comes as if this job had not been. A unique job
--       takes no key so: it runs.
-- called by: admin/periodic. $1 name, $2 channel (null: no hint).
-- index: periodic_pkey.
-- locks: none but the new row; the commit takes the lock of NOTIFY for a moment.
with enqueued as (
    insert into fastq.job (kind, args, queue, priority, max_attempts, tags, meta, state, seq, waits_for)
    select kind, args, queue, priority, max_attempts, tags || array[
        'periodic:' || name, 'tick:' || to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    ], case when (meta - 'unique'::text) <> '{}'::jsonb then meta - 'unique'::text end,
        (case when meta ->> 'gates'::text is null then 'available' else 'waiting' end)::fastq.state,
        case when meta ->> 'gates'::text is null then nextval('fastq.job_seq') end, meta ->> 'gates'::text
    from fastq.periodic
    where name = $1::text
    returning id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from enqueued where waits_for is not null group by queue, waits_for, priority
    returning id
)
select id, case when $2::text is not null then pg_notify($2::text, case when waits_for is null then queue else '@gate' end) end from enqueued
