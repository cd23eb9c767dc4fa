-- what: enqueues jobs some of which go through gates, and returns their ids in the order given; wakes the queues, and the gatekeeper,
--       on commit unless $10 is false. A job that is due and goes through gates begins to wait at them.
-- called by: enqueue/calls: for the clients, in the caller's transaction. The parameters are those of job_enqueue_many; at least one
--            job has "gates" in its meta.
-- index: none is read.
-- locks: none but the new rows; with a wake-up the commit takes the lock of NOTIFY for a moment.
with given as (
    select kind, queue, priority, max_attempts, args, tags, meta::jsonb as meta, nth,
        coalesce(at, statement_timestamp() + make_interval(secs => delay)) as due
    from unnest(
        string_to_array($1::text, E'\x1e'),
        string_to_array($2::text, E'\x1e'),
        string_to_array($3::text, E'\x1e')::smallint[],
        string_to_array($4::text, E'\x1e')::smallint[],
        string_to_array($5::text, E'\x1e'),
        string_to_array($6::text, E'\x1e', ''),
        string_to_array($7::text, E'\x1e', '')::float8[],
        string_to_array($8::text, E'\x1e', '')::timestamptz[],
        string_to_array($9::text, E'\x1e', '')
    ) with ordinality as given (kind, queue, priority, max_attempts, args, tags, delay, at, meta, nth)
), placed as (
    select *, case when due > statement_timestamp() then due end as scheduled_at,
        case when due > statement_timestamp() then null else meta ->> 'gates'::text end as waits_for
    from given
), enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at, waits_for)
    select kind, queue, priority, max_attempts, args::json, string_to_array(tags, E'\x1f'), meta,
        (case when scheduled_at is not null then 'scheduled' when waits_for is not null then 'waiting' else 'available' end)::fastq.state,
        case when scheduled_at is null and waits_for is null then nextval('fastq.job_seq') end,
        scheduled_at, waits_for
    from placed
    order by nth
    returning id  -- and no more: a right to read waits_for would show the keys of others' jobs
), stored as (
    select every.ids[placed.nth::int] as id, placed.queue, placed.priority, placed.waits_for,
        case when placed.scheduled_at is not null then '@due' when placed.waits_for is not null then '@gate' else placed.queue end as wake
    from placed cross join (select array_agg(id order by id) as ids from enqueued) as every
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from stored where waits_for is not null group by queue, waits_for, priority
    returning id
), woken as (
    select count(pg_notify($11::text, wake)) as hints from (select distinct wake from stored where $10::boolean) as hint
)
select id from enqueued, woken
