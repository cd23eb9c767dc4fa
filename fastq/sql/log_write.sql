-- what: writes sheets of job logs; a second time it changes nothing. It deletes those of the same attempts that are no longer kept: they
--       begin at $10 or later, and end by $11.
-- called by: work/scribe: by the batch. Arrays of one length: $1 jobs, $2 claims, $3 where they begin, $4 attempts, $5 kinds, $6 sizes,
--       $7 numbers of lines, $8 whether they are the last ones, $9 texts; $10 ends of the beginnings, $11 beginnings of the ends.
-- index: job_log_pkey.
-- locks: rows that it deletes: of attempts that nobody else writes.
with gone as (
    delete from fastq.job_log
    using (
        select distinct job, claim, head, gone
        from unnest($1::bigint[], $2::bigint[], $10::bigint[], $11::bigint[]) as given (job, claim, head, gone)
        where gone > head
    ) as old
    where job_log.job = old.job and job_log.claim = old.claim and job_log.start_at >= old.head
      and (job_log.start_at + job_log.size) <= old.gone and not job_log.ended
)
insert into fastq.job_log (job, claim, start_at, attempt, kind, size, lines, ended, text)
select given.job, given.claim, given.start_at, given.attempt, given.kind, given.size, given.lines, given.ended, given.text
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::text[], $6::int[], $7::int[], $8::boolean[], $9::text[])
    as given (job, claim, start_at, attempt, kind, size, lines, ended, text)
on conflict do nothing
