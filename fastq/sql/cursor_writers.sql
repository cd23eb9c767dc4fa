-- what: whether a transaction older than xid $1, or one with a virtual id in $2, may still commit rows of job: it may if it holds
--       the lock that inserting takes.
-- called by: work/cursor/low_water: when the snapshots alone do not let the low-water mark move: some old transaction lives, but
--            need not be ours.
-- index: none: it reads the lock table.
-- locks: none.
select exists (
    select
    from pg_catalog.pg_locks as held
    left join pg_catalog.pg_locks as own on own.virtualtransaction = held.virtualtransaction
        and own.locktype = 'transactionid' and own.mode = 'ExclusiveLock' and own.granted
    where held.locktype = 'relation' and held.relation = 'fastq.job'::regclass and held.mode = 'RowExclusiveLock'
      and held.database = (select oid from pg_catalog.pg_database where datname = current_database())
      and (held.virtualtransaction = any ($2::text[])
        or age(own.transactionid) > age(($1::bigint & 4294967295)::text::xid))
)
