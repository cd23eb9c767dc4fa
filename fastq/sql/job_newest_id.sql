-- what: the highest id given so far, 0 when there was none.
-- called by: admin/jobs: list, to know where to begin.
-- index: none; it is the sequence's own row.
-- locks: none.
select case when is_called then last_value else 0 end from fastq.job_id_seq
