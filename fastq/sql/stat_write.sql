-- what: appends the counts of one process, each to the minute that it names, or else to the present one.
-- called by: work/complete/tally: every few seconds. Arrays of one length: $1 queues, $2 kinds, $3 outcomes, $4 minutes (seconds since
--            1970, null: the present one), $5 jobs, $6 runs, $7 their seconds, $8 waits, $9 their seconds, $10 bins and $11 counts (as text).
-- index: none is read.
-- locks: none but the new rows.
insert into fastq.stat (grain, at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
select 0, date_trunc('minute', coalesce(to_timestamp(minute), clock_timestamp()), 'UTC'),
    queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins::smallint[], counts::bigint[]
from unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::bigint[], $6::bigint[], $7::float8[], $8::bigint[], $9::float8[],
    $10::text[], $11::text[]) as given (queue, kind, outcome, minute, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
