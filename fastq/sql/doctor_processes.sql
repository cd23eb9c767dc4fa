-- what: how many worker processes live, and on how many hosts. A row with its supervisor's own pid is the number that it holds ready for
--       its next child.
-- called by: admin/doctor/leading.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select count(*), count(distinct host) from fastq.process
where expires_at > clock_timestamp() and pid::text <> split_part(supervisor, ':', 2)
