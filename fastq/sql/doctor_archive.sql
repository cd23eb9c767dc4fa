-- what: the partitions of the archive, and the table of rows that were set aside, by name: each with its bytes, and today's date (UTC).
-- called by: admin/doctor/storage. $1 the archive, $2 the table of rows set aside, both with their schema.
-- index: none: the catalogue.
-- locks: access share on each partition, for its size.
select relation.relname::text, pg_relation_size(relation.oid), (clock_timestamp() at time zone 'UTC')::date
from pg_catalog.pg_class as relation
where relation.oid = to_regclass($2::text)
   or exists (select from pg_catalog.pg_inherits where inhrelid = relation.oid and inhparent = to_regclass($1::text))
order by relation.relname
