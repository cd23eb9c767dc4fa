-- 0003 archive summaries: block ranges are summarised by vacuum, and no longer asked for one by one.
-- Locks: job_archive and its partitions, exclusively, while their block ranges are built anew.   Time: about a second per GB.
--
-- With autosummarize each new range of pages, a thousand rows, puts a request on a list of 256 that the server goes through once
-- a minute. Beyond some 4,000 jobs a second the list is full, and each further range is a line of the server's log with the whole
-- text of the statement. Now a day's partition is vacuumed, and its ranges summarised, whenever so many rows have come.

drop index fastq.job_archive_id;
create index job_archive_id on fastq.job_archive using brin (id, finalized_at) with (pages_per_range = 16);

do $$
declare day regclass;
begin
    for day in select inhrelid from pg_catalog.pg_inherits where inhparent = 'fastq.job_archive'::regclass loop
        execute format('alter table %s set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000)', day);
    end loop;
end $$;
