-- 0005 meta: one column for what no index sees.
-- Locks: job, periodic, and job_archive with each of its partitions, exclusively, for milliseconds: no row is read or rewritten.
--        Time: milliseconds.

-- What features keep with a job, one key each (fastq/args/meta.py). Null unless a feature uses it: a null costs nothing where others
-- are null already, and the next feature needs neither a column nor a migration. Each claim reads it: so it stays in the row.
alter table fastq.job add column meta jsonb;
alter table fastq.job alter column meta set storage main;
alter table fastq.periodic add column meta jsonb;

-- Here one key is there whatever features are used. "cause" says why a job ended that did not complete: 'failed' (its last attempt
-- failed), 'crashed' (its process died), 'lost' (its process showed no life any more), 'asked' (its cancellation was asked for),
-- 'worker' (its worker cancelled it). What ended before this column was there has none.
alter table fastq.job_archive add column meta jsonb;
