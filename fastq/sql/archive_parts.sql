-- what: the partitions of the archive that have pages, the oldest day first: oid, begin and end of the times in it as text, and how many pages.
--       The default partition may hold any time.
-- called by: admin/sealed/archived: before archive_sealed.
-- index: none.
-- locks: none.
select oid, low::text, high::text, pages
from (
    select part.oid::bigint as oid, part.relname,
        coalesce((regexp_match(pg_get_expr(part.relpartbound, part.oid), 'FROM [(]''([^'']*)'))[1]::timestamptz, '-infinity') as low,
        coalesce((regexp_match(pg_get_expr(part.relpartbound, part.oid), 'TO [(]''([^'']*)'))[1]::timestamptz, 'infinity') as high,
        pg_relation_size(part.oid) / current_setting('block_size')::bigint as pages
    from pg_catalog.pg_inherits
    join pg_catalog.pg_class as part on part.oid = pg_inherits.inhrelid
    where pg_inherits.inhparent = 'fastq.job_archive'::regclass
) as parts
where pages > 0
order by relname
