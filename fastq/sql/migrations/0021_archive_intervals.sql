-- 0021 archive intervals: the block ranges of the archive have several intervals of ids each, so a job that ended late widens none.
-- Locks: job_archive and its partitions, exclusively, while their block ranges are built anew.   Time: some five seconds per GB.
--
-- With one interval for 16 pages, a range reaches from the oldest id in it to the youngest. Where one job in a hundred ends a day after
-- others of its age (a delay, a retry), nearly each range of a day reaches back to the day before, so to find one job by its id was to
-- read a day of jobs: 0.4 s at two million a day. Sixteen values are eight intervals: the jobs that ended late have their own. Ranges of 64
-- pages make up for their size (docs/adr/0042). The pages that are filled now have no summary, so an insert pays nothing for it.

drop index fastq.job_archive_id;
create index job_archive_id on fastq.job_archive
    using brin (id int8_minmax_multi_ops (values_per_range = 16), finalized_at) with (pages_per_range = 64);
