-- what: notes that all seqs from the next one on are given out after this moment, if any was given out since the last note.
-- called by: lead/observed/statistics. $1-$3 fence.
-- index: stat_due_seq; lease_pkey.
-- locks: the lease's row, for key share; the new row.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), noted as (
    insert into fastq.stat_due (first_seq, at)
    select last_value + is_called::int, statement_timestamp()
    from fastq.job_seq
    where exists (select from held) and (last_value + is_called::int) > coalesce((select max(first_seq) from fastq.stat_due), 0)
    returning 1
)
select (select count(*) from held), (select count(*) from noted)
