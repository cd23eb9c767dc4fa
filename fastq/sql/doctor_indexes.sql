-- what: the B-tree indexes of a schema, but for those of partitions: index, table, bytes and entries as of the last vacuum (-1: never),
--       whether it is valid.
-- called by: admin/doctor/vacuuming. $1 schema.
-- index: none: the catalogue.
-- locks: none.
select index.relname::text, relation.relname::text, index.relpages::bigint * current_setting('block_size')::bigint, index.reltuples::float8, pg_index.indisvalid
from pg_catalog.pg_index
join pg_catalog.pg_class as index on index.oid = pg_index.indexrelid
join pg_catalog.pg_class as relation on relation.oid = pg_index.indrelid
join pg_catalog.pg_namespace on pg_namespace.oid = relation.relnamespace
join pg_catalog.pg_am on pg_am.oid = index.relam
where pg_namespace.nspname = $1::text and pg_am.amname = 'btree' and relation.relkind = 'r' and not relation.relispartition
order by index.relname
