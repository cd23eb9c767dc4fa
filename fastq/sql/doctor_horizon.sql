-- what: what keeps dead rows of this database alive, the oldest first, $1 at most: sessions, prepared transactions, replication slots and
--       standbys that report their snapshots. Each with its name, role, program and state, the seconds since it began (null: not known
--       to this role, or to nobody), and the transactions that have begun since its snapshot.
-- called by: admin/doctor/horizon.
-- index: none: the server's lists.
-- locks: none.
select held.sort, held.name, held.role, held.program, held.state, held.seconds, held.transactions
from (
    select 'session' as sort, pid::text as name, usename::text as role, application_name as program, state,
        extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, greatest(age(backend_xmin), age(backend_xid)) as transactions
    from pg_catalog.pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
      and coalesce(backend_type <> 'autovacuum worker', true)  -- vacuum does not wait for vacuum
    union all
    select 'prepared', gid, owner::text, null, null, extract(epoch from clock_timestamp() - prepared)::float8, age(transaction)
    from pg_catalog.pg_prepared_xacts
    where database = current_database()
    union all
    select 'slot', slot_name::text, null, plugin::text, case when active then 'active' else 'inactive' end, null,
        greatest(age(xmin), age(catalog_xmin))
    from pg_catalog.pg_replication_slots
    where xmin is not null or catalog_xmin is not null
    union all
    select 'standby', coalesce(host(client_addr), pid::text), usename::text, application_name, state, null, age(backend_xmin)
    from pg_catalog.pg_stat_replication
    where backend_xmin is not null
) as held
order by held.transactions desc, held.seconds desc nulls last
limit $1::bigint
