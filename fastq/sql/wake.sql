-- what: wakes the processes that listen for these queues; equal wake-ups of a transaction become one.
-- called by: enqueue/settings, lead/workflow/steward: after a COPY and for the last of several wake-ups. $1 channel, $2 queues, joined by a record
--            separator.
-- index: none.
-- locks: the commit takes the lock of NOTIFY for a moment.
select count(pg_notify($1::text, wake)) from unnest(string_to_array($2::text, E'\x1e')) as hint (wake)
