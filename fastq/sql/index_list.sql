-- what: the indexes of the table of living jobs: name, bytes, entries as last counted (-1: never), whether it is valid, and how many seconds
--       ago it was built anew (null: not that anybody noted).
-- called by: lead/chores/reindex. $1 schema, $2 lease.
-- index: none: the catalogue; chore_pkey.
-- locks: none.
select index.relname, pg_relation_size(index.oid), index.reltuples::float8, pg_index.indisvalid,
    extract(epoch from clock_timestamp() - chore.ran_at)::float8
from pg_catalog.pg_class as of_jobs
join pg_catalog.pg_namespace on pg_namespace.oid = of_jobs.relnamespace
join pg_catalog.pg_index on pg_index.indrelid = of_jobs.oid
join pg_catalog.pg_class as index on index.oid = pg_index.indexrelid
left join fastq.chore on chore.lease = $2::text and chore.name = ('reindex ' || index.relname)
where pg_namespace.nspname = $1::text and of_jobs.relname = 'job'
order by index.relname
