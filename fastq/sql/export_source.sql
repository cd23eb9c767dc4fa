-- what: a name for the schema that goes with its jobs wherever they are restored: when its tables were made, to the microsecond; and the name
--       of the database.
-- called by: admin/exports/exporting: for the head of an export.
-- index: migration_pkey, or none: it has twenty rows.
-- locks: none.
select to_hex((extract(epoch from min(applied_at)) * 1000000)::bigint) as source, current_database()::text as database from fastq.migration
