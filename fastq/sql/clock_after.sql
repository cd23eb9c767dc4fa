-- what: the time in $1 seconds by the database's clock.
-- called by: admin_periodic, client, client_async, periodic_store: for the ticks to come, and for the delay of a whole COPY.
-- index: none.
-- locks: none.
select clock_timestamp() + make_interval(secs => $1::float8)
