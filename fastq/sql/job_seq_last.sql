-- what: the highest seq that was ever given out.
-- called by: work/cursor/looks: while there is backlog, to know how far the frontier may jump.
-- index: none: it reads the sequence.
-- locks: none.
select last_value from fastq.job_seq
