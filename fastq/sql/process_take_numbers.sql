-- what: takes 64 process numbers, from the one returned on.
-- called by: registrar: at its start and when it has used them up.
-- index: none.
-- locks: none.
select nextval('fastq.process_number')
