-- what: writes the newest notes of jobs, but for a note of an attempt before the one that is there: its process was slow, or gone.
-- called by: work/notes: once a second at most. Arrays of one length: $1 ids, sorted, $2 attempts, $3 fractions, $4 texts.
-- index: job_progress_pkey.
-- locks: the rows, in the order of the ids given.
insert into fastq.job_progress as old (job, attempt, fraction, text)
select given.job, given.attempt, given.fraction, given.text
from unnest($1::bigint[], $2::int[], $3::float8[], $4::text[]) as given (job, attempt, fraction, text)
on conflict (job) do update
set attempt = excluded.attempt, fraction = excluded.fraction, text = excluded.text, noted_at = excluded.noted_at
where old.attempt <= excluded.attempt
