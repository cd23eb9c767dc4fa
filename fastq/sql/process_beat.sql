-- what: keeps the rows of this supervisor's processes alive (and makes or remakes them); answers with the ids that are theirs. Another is
--       missing: the numbers went back (a restore, a failover to a standby that lagged) and were given out again. It reads nothing else: a lock on another table
--       must not make the living look dead.
-- called by: host/registrar: each beat. Arrays: $1 ids, $2 pids, $10 the vitals of each as JSON (null: they could not be measured). $3 host,
--            $4 supervisor, $5 queues, $6 ttl in seconds, $7 domain, $8 periodic jobs that its app declares, $9 kinds that it has workers
--            for. These two are written when a row is made and not at each beat: they may be thousands.
-- index: process_pkey.
-- locks: the rows of this supervisor's own processes.
insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain, periodic, kinds, vitals)
select id, $3::text, pid, $4::text, $5::text, clock_timestamp() + make_interval(secs => $6::float8), $7::text, $8::text[], $9::text[], vitals::jsonb
from unnest($1::bigint[], $2::integer[], $10::text[]) as given (id, pid, vitals)
on conflict (id) do update set expires_at = excluded.expires_at, pid = excluded.pid, vitals = excluded.vitals
    where process.supervisor = excluded.supervisor
returning id
