-- what: the time in $1 seconds by the database's clock.
-- called by: client, for a delay of a whole COPY.
-- index: none.
-- locks: none.
select clock_timestamp() + make_interval(secs => $1::float8)
