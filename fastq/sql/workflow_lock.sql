-- what: locks a workflow, so that none of its steps is resolved and none is added before the transaction ends. Answers with the number
--       of its steps, and whether it was cancelled or has ended; no row if there is none. $1 id.
-- called by: enqueue/flows: before steps are added, cancelled or retried, in the caller's transaction: statements after it see all that was
--            committed before the lock.
-- index: workflow_pkey.
-- locks: the workflow's row, for no key update.
select steps, cancelled_at is not null, ended_at is not null from fastq.workflow where id = $1::bigint for no key update
