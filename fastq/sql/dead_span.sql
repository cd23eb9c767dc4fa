-- what: the time that was $1 seconds ago (null: 1970), and the time now, by the database's clock.
-- called by: admin/dead/lately, admin/dead/letters, admin/dead/letters_async: before discarded jobs are looked for.
-- index: none.
-- locks: none.
select coalesce(clock_timestamp() - make_interval(secs => $1::float8), 'epoch'::timestamptz), clock_timestamp()
