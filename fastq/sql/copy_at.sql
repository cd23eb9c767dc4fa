-- what: the time in $1 seconds by the database's clock, in microseconds since 1970: the session is the caller's, and its driver may not
--       read the way in which that writes times (DateStyle).
-- called by: enqueue/client, enqueue/client_async: for the delay of a whole COPY.
-- index: none.
-- locks: none.
select (extract(epoch from clock_timestamp() + make_interval(secs => $1::float8)) * 1000000)::bigint
