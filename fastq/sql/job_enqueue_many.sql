-- what: enqueues jobs and returns their ids in the order given; wakes the queues on commit unless $10 is false.
-- called by: enqueue/calls: for the clients, in the caller's transaction. Lists of one length as text, elements joined by a record separator, an empty one
--            is null: $1 kinds, $2 queues, $3 priorities, $4 max_attempts, $5 args (json), $6 tags (joined by a unit separator),
--            $7 delays in seconds (null: none), $8 times (null: use the delay), $9 meta (json; null: none has any).
--            $11 channel.
--            Text, because drivers write it in one go: as arrays, psycopg spends 6 us a job on them, joined 0.6 (measured).
-- index: none is read.
-- locks: none but the new rows; with a wake-up the commit takes the lock of NOTIFY for a moment.
with given as (
    select kind, queue, priority, max_attempts, args, tags, meta, nth,
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
), enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at)
    select kind, queue, priority, max_attempts, args::json, string_to_array(tags, E'\x1f'), meta::jsonb,
        (case when due > statement_timestamp() then 'scheduled' else 'available' end)::fastq.state,
        case when due > statement_timestamp() then null else nextval('fastq.job_seq') end,
        case when due > statement_timestamp() then due end
    from given
    order by nth
    returning id, case when seq is null then '@due' else queue end as wake
), woken as (
    select count(pg_notify($11::text, wake)) as hints from (select distinct wake from enqueued where $10::boolean) as hint
)
select id from enqueued, woken
