-- what: removes processes that have ended.
-- called by: host/registrar: after their jobs were given back or finished. $1 ids, $2 supervisor: a number may be somebody else's by now.
-- index: process_pkey.
-- locks: the rows.
delete from fastq.process where id = any ($1::bigint[]) and supervisor = $2::text
