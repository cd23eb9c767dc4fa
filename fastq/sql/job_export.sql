-- what: everything about the living jobs $1 (ids, joined by commas), and about the finished ones $2 at the row addresses (ctid) $3, joined by
--       semicolons, which ended from $4 to $5. One that is not there any more is left out. JSON comes as text, as it is stored.
-- called by: admin/exports/exporting.
-- index: job_pkey; none of the archive: the addresses say where, and the ends in which days.
-- locks: none.
select id, kind, queue, priority, max_attempts, tags, state, attempt, crashes, cancel_requested, created_at, scheduled_at, attempted_at,
    null::timestamptz as finalized_at, waits_for, args::text as args, meta::text as meta, to_json(errors)::text as errors, null::text as output
from fastq.job
where id = any (string_to_array($1::text, ',')::bigint[])
union all
select job_archive.id, kind, queue, priority, max_attempts, tags, state, attempt, crashes, false, created_at, null, attempted_at,
    finalized_at, null, args::text, meta::text, to_json(errors)::text, output::text
from unnest(string_to_array($2::text, ',')::bigint[], string_to_array($3::text, ';')) as given (id, address)
join fastq.job_archive on job_archive.ctid = given.address::tid and job_archive.id = given.id
where job_archive.finalized_at >= $4::timestamptz and job_archive.finalized_at <= $5::timestamptz
