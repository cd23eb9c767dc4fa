-- what: the lowest seq that is still available in (low, high], per priority 1 to 4, locked or not.
-- called by: work/cursor/low_water: before the low-water marks move. $1 queue, $2-$5 lows of priority 1-4, $6-$9 highs.
-- index: job_ready.
-- locks: none.
select
    (select seq from fastq.job where queue = $1::text and priority = 1 and seq > $2::bigint and seq <= $6::bigint and state = 'available' order by seq limit 1),
    (select seq from fastq.job where queue = $1::text and priority = 2 and seq > $3::bigint and seq <= $7::bigint and state = 'available' order by seq limit 1),
    (select seq from fastq.job where queue = $1::text and priority = 3 and seq > $4::bigint and seq <= $8::bigint and state = 'available' order by seq limit 1),
    (select seq from fastq.job where queue = $1::text and priority = 4 and seq > $5::bigint and seq <= $9::bigint and state = 'available' order by seq limit 1)
