-- what: those of the jobs $1 that still wait at gates: they were to be let go, and their rows were locked.
-- called by: lead/gate/gatekeeper: when gate_admit has let fewer go than it was given.
-- index: job_pkey.
-- locks: none.
select coalesce(array_agg(id), '{}') from fastq.job where id = any ($1::bigint[]) and state = 'waiting' and starts_with(coalesce(waits_for, ''), '[')
