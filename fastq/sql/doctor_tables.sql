-- what: the tables of a schema, without partitions that have a day of their own: bytes as of the last vacuum, rows and dead rows by the
--       server's statistics, the seconds since they were vacuumed (null: never), and the settings of their own.
-- called by: admin/doctor/vacuuming. $1 schema.
-- index: none: the catalogue.
-- locks: none.
select relation.relname::text, relation.relpages::bigint * current_setting('block_size')::bigint, stat.n_live_tup, stat.n_dead_tup,
    extract(epoch from clock_timestamp() - greatest(stat.last_vacuum, stat.last_autovacuum))::float8, coalesce(relation.reloptions, '{}')
from pg_catalog.pg_class as relation
join pg_catalog.pg_namespace on pg_namespace.oid = relation.relnamespace
join pg_catalog.pg_stat_all_tables as stat on stat.relid = relation.oid
where pg_namespace.nspname = $1::text and relation.relkind = 'r' and not relation.relname ~ '^job_archive_[0-9]+$'
order by relation.relname
