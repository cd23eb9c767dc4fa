-- what: deletes up to $6 rows of statistics of days that began $4 days ago or earlier, and up to $6 notes of when seqs were given out
--       that are $5 seconds old, but the first one: it tells of all seqs before the others. Says how many of both.
-- called by: lead/observed/statistics. $1-$3 fence.
-- index: stat_at; stat_due_at; stat_due_seq; lease_pkey.
-- locks: the lease's row, for key share; the rows that it deletes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), days as (
    delete from fastq.stat
    where grain = 3 and ctid = any (array(
        select ctid from fastq.stat
        where exists (select from held) and grain = 3 and at <= (statement_timestamp() - ($4::float8 * interval '1 day'))
        order by at
        limit $6::bigint
    ))
    returning 1
), notes as (
    delete from fastq.stat_due
    where ctid = any (array(
        select ctid from fastq.stat_due
        where exists (select from held) and at <= (statement_timestamp() - ($5::float8 * interval '1 second'))
          and first_seq > (select min(first_seq) from fastq.stat_due)
        order by at
        limit $6::bigint
    ))
    returning 1
)
select (select count(*) from held), (select count(*) from days), (select count(*) from notes)
