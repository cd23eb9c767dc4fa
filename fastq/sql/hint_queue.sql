-- what: says how full the server's queue of notifications is, from 0 to 1, and which sessions may keep it so, the likeliest
--       first: one that listens takes its notifications when its transaction ends, and one that does not read its socket takes no
--       more. The question also makes Postgres drop the notifications that all have taken: by itself it does so only when it adds
--       one, if there is room.
-- called by: admin/doctor/server, enqueue/sessions, enqueue/sessions_async, postgres/hints: when a statement was refused because the queue
--       is full, and when somebody examines the server.
-- index: none.
-- locks: those of the queue, for a moment.
select pg_notification_queue_usage(), array(
    select 'pid ' || pid::text || ' (user ' || coalesce(usename::text, '?') || ', database ' || coalesce(datname::text, '?')
        || ', application ' || coalesce(application_name, '?') || '): ' || coalesce(state, '?')
        || ', its transaction began ' || coalesce(extract(epoch from date_trunc('second', clock_timestamp() - xact_start))::text, '?') || ' s ago'
    from pg_catalog.pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()
      and (xact_start is not null or wait_event = 'ClientWrite')
    order by xact_start
    limit 3
)
