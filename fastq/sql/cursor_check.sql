-- what: the highest seq that was ever given out; and whether job has a trigger that runs for each row before it is inserted: when the
--       row has its number, and its transaction no xid.
-- called by: work/cursor/looks, work/cursor/peeks: now and then, to see whether numbers have gone back, and to know how to look for writers.
-- index: pg_trigger_tgrelid_tgname_index.
-- locks: none.
select (select last_value from fastq.job_seq), exists (
    select from pg_catalog.pg_trigger
    where tgrelid = 'fastq.job'::regclass and not tgisinternal and tgenabled <> 'D' and tgtype & 7 = 7 -- row, before, insert
)
