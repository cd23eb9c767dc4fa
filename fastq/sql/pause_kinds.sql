-- what: the kinds that are paused.
-- called by: work/claim/paused: before a process's first claim, after the hint '@pause', and now and then.
-- index: none: as many rows as there are pauses.
-- locks: none.
select coalesce(array_agg(name::text order by name), '{}') from fastq.pause where sort = 'kind'
