-- what: enqueues one job and returns its id; wakes its queue on commit unless $10 is false.
-- called by: enqueue/calls: for the clients, in the caller's transaction. $1 kind, $2 queue, $3 priority, $4 max_attempts, $5 args (json text),
--            $6 tags (joined by a unit separator, or null), $7 delay in seconds (null: none), $8 time (null: use the delay),
--            $9 meta (json text, or null). $11 channel.
-- index: none is read.
-- locks: none but the new row; with a wake-up the commit takes the lock of NOTIFY for a moment.
with enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at)
    select $1::text, $2::text, $3::smallint, $4::smallint, $5::text::json, string_to_array($6::text, E'\x1f'), $9::text::jsonb,
        (case when due > statement_timestamp() then 'scheduled' else 'available' end)::fastq.state,
        case when due > statement_timestamp() then null else nextval('fastq.job_seq') end,
        case when due > statement_timestamp() then due end
    from (select coalesce($8::timestamptz, statement_timestamp() + make_interval(secs => $7::float8)) as due) as given
    returning id, case when seq is null then '@due' else queue end as wake
)
select id, case when $10::boolean then pg_notify($11::text, wake) is null end from enqueued
