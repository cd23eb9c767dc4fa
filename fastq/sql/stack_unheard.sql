-- what: which of the processes $1 have requests that they have not answered, of the last minute.
-- called by: host/registrar: after a beat while a job executes, on a host that hears no hints.
-- index: none: the table has as many rows as people ask at once.
-- locks: none.
select distinct process
from fastq.stack
where process = any ($1::bigint[]) and answered_at is null and asked_at > (clock_timestamp() - interval '1 minute')
