-- what: the sequences of a schema that do not begin again at their end: name, last number (null: none yet), the largest that there can
--       be, and whether this role may know the last number.
-- called by: admin/doctor/storage. $1 schema.
-- index: none: the catalogue, and a page of each sequence.
-- locks: access share on each sequence.
with found as (
    select class.oid, class.relname, sequence.seqmax, pg_catalog.has_sequence_privilege(class.oid, 'select, usage') as told
    from pg_catalog.pg_sequence as sequence
    join pg_catalog.pg_class as class on class.oid = sequence.seqrelid
    join pg_catalog.pg_namespace as namespace on namespace.oid = class.relnamespace
    where namespace.nspname = $1::text and not sequence.seqcycle
)
select relname::text, case when told then pg_catalog.pg_sequence_last_value(oid::regclass) end as last_value, seqmax, told
from found
order by relname
