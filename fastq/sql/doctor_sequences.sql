-- what: the sequences of a schema that do not begin again at their end: name, last number (null: none yet, or this role may not know),
--       and the largest that there can be.
-- called by: admin/doctor/storage. $1 schema.
-- index: none: the catalogue, and a page of each sequence.
-- locks: access share on each sequence.
select sequencename::text, last_value, max_value from pg_catalog.pg_sequences where schemaname = $1::text and not cycle order by sequencename
