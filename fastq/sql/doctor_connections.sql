-- what: how many sessions the server, this database and this role may have (-1: no limit of its own), how many of the server's are kept for
--       superusers and reserved roles, and how many sessions there are: of all clients, in this database, of this role, and of fastq's here.
-- called by: admin/doctor/sessions.
-- index: none: the catalogue, and the server's list of sessions.
-- locks: none.
select current_setting('max_connections')::int, pg_database.datconnlimit, pg_roles.rolconnlimit,
    current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true), '0')::int,
    used.whole, used.here, used.own, used.ours
from pg_catalog.pg_database
join pg_catalog.pg_roles on pg_roles.rolname = current_user
cross join (
    select count(*) as whole, count(*) filter (where datname = current_database()) as here,
        count(*) filter (where usename = current_user) as own,
        count(*) filter (where datname = current_database() and starts_with(application_name, 'fastq ')) as ours
    from pg_catalog.pg_stat_activity
    where backend_type = 'client backend' or (backend_type is null and datid is not null)  -- null: this role may not know
) as used
where pg_database.datname = current_database()
