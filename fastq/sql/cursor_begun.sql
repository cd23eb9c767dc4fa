-- what: the transactions that may be about to insert into job, or in the middle of it, and own no xid yet, by their virtual ids.
-- called by: work/cursor/low_water: where a trigger may hold up an insert between its number and its xid.
-- index: none: it reads the lock table.
-- locks: none.
select held.virtualtransaction
from pg_catalog.pg_locks as held
where held.locktype = 'relation' and held.relation = 'fastq.job'::regclass and held.mode = 'RowExclusiveLock'
  and held.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and not exists (
    select from pg_catalog.pg_locks as own
    where own.virtualtransaction = held.virtualtransaction and own.locktype = 'transactionid' and own.mode = 'ExclusiveLock'
  )
