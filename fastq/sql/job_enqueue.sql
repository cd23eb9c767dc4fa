-- what: enqueues jobs and returns their ids in the order given; wakes the queues on commit unless $9 is false.
-- called by: client, in the caller's transaction. Arrays of one length: $1 kinds, $2 queues, $3 priorities, $4 max_attempts,
--            $5 args (json text), $6 tags (joined by a unit separator, or null), $7 delays in seconds (null: now), $8 times (null: use the delay). $10 channel.
-- index: none is read.
-- locks: none but the new rows; with a wake-up the commit takes the lock of NOTIFY for a moment.
with given as (
    select kind, queue, priority, max_attempts, args, tags, place,
        coalesce(at, statement_timestamp() + make_interval(secs => delay)) as due
    from unnest($1::text[], $2::text[], $3::smallint[], $4::smallint[], $5::text[], $6::text[], $7::float8[], $8::timestamptz[])
        with ordinality as given (kind, queue, priority, max_attempts, args, tags, delay, at, place)
), enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, state, seq, scheduled_at)
    select kind, queue, priority, max_attempts, args::json, string_to_array(tags, E'\x1f'),
        (case when due > statement_timestamp() then 'scheduled' else 'available' end)::fastq.state,
        case when due > statement_timestamp() then null else nextval('fastq.job_seq') end,
        case when due > statement_timestamp() then due end
    from given
    order by place
    returning id, case when seq is null then '@due' else queue end as wake
), woken as (
    select count(pg_notify($10::text, wake)) as hints from (select distinct wake from enqueued where $9::boolean) as hint
)
select id from enqueued, woken
