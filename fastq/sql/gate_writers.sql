-- what: the transactions that may yet commit events with ids that were given out before now, by their virtual ids: who inserts holds
--       this lock before it takes a number, until its end.
-- called by: lead/gate/gate_log: to know up to which id no event can come any more.
-- index: none: it reads the lock table.
-- locks: none.
select coalesce(array_agg(distinct held.virtualtransaction), '{}')
from pg_catalog.pg_locks as held
where held.locktype = 'relation' and held.relation = 'fastq.gate_event'::regclass and held.mode = 'RowExclusiveLock'
  and coalesce(held.pid, 0) <> pg_backend_pid()
  and held.database = (select oid from pg_catalog.pg_database where datname = current_database())
