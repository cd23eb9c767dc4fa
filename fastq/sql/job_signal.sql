-- what: gives a living job a signal; the first of a name stays. A job that is parked for it is due at once. Says whether it was
--       'sent', was 'there' already, or the job is 'missing'.
-- called by: enqueue/operate/signalling, enqueue/operate/signalling_async. $1 job, $2 name, $3 value (json text), $4 channel
--            (null: no hint).
-- index: job_pkey; job_step_pkey.
-- locks: the job's row: a statement that parks the job comes before or behind, and sees the number of its signals.
with living as materialized (
    select id, case when state = 'waiting' then waits_for = ('signal:' || $2::text)
        when state = 'scheduled' then (meta -> 'parked'::text) = jsonb_build_array($2::text, extract(epoch from scheduled_at)) end as parked
    from fastq.job
    where id = $1::bigint
    for no key update
), kept as (
    insert into fastq.job_step (job, sort, name, output)
    select id, 'signal', $2::text, $3::json from living
    on conflict do nothing
    returning job
), signalled as (
    update fastq.job
    set meta = coalesce(job.meta, '{}') || jsonb_build_object('steps', coalesce((job.meta ->> 'steps'::text)::int, 0) + 1),
        state = (case when living.parked then 'scheduled' else job.state end)::fastq.state,
        scheduled_at = case when living.parked then clock_timestamp() else job.scheduled_at end,
        waits_for = case when living.parked then null else job.waits_for end
    from living
    where job.id = living.id and exists (select from kept)
    returning living.parked
), woken as (
    select pg_notify($4::text, '@due') from signalled where parked and $4::text is not null
)
select case when exists (select from kept) then 'sent' when exists (select from living) then 'there' else 'missing' end,
    (select count(*) from signalled), (select count(*) from woken)
