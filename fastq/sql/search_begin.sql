-- what: the time by the database's clock, and the highest id given so far, 0 when there was none.
-- called by: admin/bulk/operations, admin/search/walks, admin/exports/exporting, cli/search/tailing: before jobs are looked for.
-- index: none; it is the sequence's own row.
-- locks: none.
select clock_timestamp(), case when is_called then last_value else 0 end from fastq.job_id_seq
