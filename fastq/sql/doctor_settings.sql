-- what: settings of the server as a new session of this role has them in this database: name, value, unit, and the place that it comes from.
-- called by: admin/doctor/server, admin/doctor/vacuuming. $1 names; one that this server has not, or does not show, is left out.
-- index: none: the server's memory.
-- locks: none.
select name, reset_val, coalesce(unit, ''), source from pg_catalog.pg_settings where name = any ($1::text[]) order by name
