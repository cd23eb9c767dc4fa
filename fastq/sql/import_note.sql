-- what: notes that the items $2 of an import are enqueued, joined by a record separator, under the name $1; answers with those that were not
--       noted before.
-- called by: admin/exports/importing: in the transaction that enqueues them.
-- index: once_pkey.
-- locks: the new rows, in their order: a second import of the same items waits for the transaction of the first.
insert into fastq.once (name, item)
select $1::text, item
from unnest(string_to_array($2::text, E'\x1e')) as given (item)
order by item
on conflict (name, item) do nothing
returning item
