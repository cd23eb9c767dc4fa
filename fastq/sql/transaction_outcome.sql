-- what: the outcome of a transaction whose COMMIT got no answer: committed, aborted, in progress, or null if it is too long ago; and
--       whether the job still carries our claim, which a transaction that has committed took away. First it ends the session that is
--       still in that transaction, so that it can commit no more; only a session of our own role.
-- called by: work/effects/ending: until the transaction is in progress no more. $1 number of the transaction (as text: its type is one
--            that drivers do not know), $2 job, $3 claim, $4 wait in milliseconds.
-- index: job_pkey.
-- locks: none.
with ended as materialized (
    select pg_terminate_backend(pid, $4::bigint) as gone
    from (
        select pid from pg_catalog.pg_stat_activity
        where backend_xid = $1::text::xid8::xid and usename = current_user
        offset 0 -- the planner may call a function of the condition before the rest of it, and this one must come last
    ) as left_behind
)
select case when (select count(*) from ended) >= 0 then pg_xact_status($1::text::xid8) end,
    exists (select from fastq.job where id = $2::bigint and claim = $3::bigint and state = 'running')
