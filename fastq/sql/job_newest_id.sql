-- what: the highest id given so far, 0 when there was none.
-- called by: admin: list, to know where to begin.
-- index: none; it is the sequence's own row.
-- locks: none.
select coalesce(pg_sequence_last_value('fastq.job_id_seq'::regclass), 0)
