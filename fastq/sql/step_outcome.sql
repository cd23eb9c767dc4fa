-- what: the outcome of a transaction that writes the record of a step, and whose COMMIT got no answer: committed, aborted, in
--       progress, or null if it is too long ago; and whether the record is missing. First it ends the session that is still in that
--       transaction, so that it can commit no more; only a session of our own role.
-- called by: work/effects/step_end: until the transaction is in progress no more. $1 number of the transaction (as text: its type is
--            one that drivers do not know), $2 job, $3 name of the step, $4 wait in milliseconds.
-- index: job_step_pkey.
-- locks: none.
with ended as materialized (
    select pg_terminate_backend(pid, $4::bigint) as gone
    from (
        select pid from pg_catalog.pg_stat_activity
        where backend_xid = $1::text::xid8::xid and usename = current_user
        offset 0 -- the planner may call a function of the condition before the rest of it, and this one must come last
    ) as left_behind
)
select case when (select count(*) from ended) < 0 then null when kept.there then 'committed' else pg_xact_status($1::text::xid8) end, not kept.there
from (select exists (select from fastq.job_step where job = $2::bigint and sort = 'step' and name = $3::text) as there) as kept
