-- what: takes 64 process numbers, from the one returned on; says whether some are in use, since the sequence went back: then take others.
-- called by: host/registrar: at its start and when it has used them up.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select first, exists (select from fastq.process where process.id >= first and process.id <= (first + 63))
from (select nextval('fastq.process_number') as first) as taken
