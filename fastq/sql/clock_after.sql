-- what: the time in $1 seconds by the database's clock.
-- called by: admin/periodic, lead/definitions: for the ticks to come.
-- index: none.
-- locks: none.
select clock_timestamp() + make_interval(secs => $1::float8)
