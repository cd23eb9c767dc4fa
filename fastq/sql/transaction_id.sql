-- what: the number of the transaction that it runs in, by which its outcome can be asked for later, and whether that was begun by an
--       earlier statement: on a connection in autocommit each statement is a transaction of its own.
-- called by: work/effects/blocks, work/effects/blocks_async: before the end of a job, or the record of a step, is written in a transaction of the user's.
-- index: none.
-- locks: none.
select pg_current_xact_id()::text, statement_timestamp() <> transaction_timestamp()
