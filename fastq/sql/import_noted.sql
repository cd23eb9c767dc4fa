-- what: those of the items $2, joined by a record separator, that are noted under the name $1: an import has enqueued them.
-- called by: admin/exports/importing: to say what an import would do.
-- index: once_pkey.
-- locks: none.
select item from fastq.once where name = $1::text and item = any (string_to_array($2::text, E'\x1e'))
