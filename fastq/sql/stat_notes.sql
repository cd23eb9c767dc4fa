-- what: the time by the database's clock, in seconds since 1970, and up to $3 notes of when seqs were given out: the last 20 at or
--       before seq $1, as others may stand within the seqs of a promotion, and those up to $2; as arrays of their first seqs, last
--       seqs and times.
-- called by: work/complete/tally: before it writes, if it has timed a job.
-- index: stat_due_seq.
-- locks: none.
select extract(epoch from clock_timestamp())::float8, coalesce(array_agg(first_seq order by first_seq), '{}'),
    coalesce(array_agg(last_seq order by first_seq), '{}'), coalesce(array_agg(extract(epoch from at)::float8 order by first_seq), '{}')
from (
    select first_seq, last_seq, at
    from fastq.stat_due
    where first_seq <= $2::bigint and first_seq >= coalesce((
        select min(before.first_seq)
        from (select first_seq from fastq.stat_due where first_seq <= $1::bigint order by first_seq desc limit 20) as before
    ), $1::bigint)
    order by first_seq
    limit $3::bigint
) as note
