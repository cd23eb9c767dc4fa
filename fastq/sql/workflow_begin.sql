-- what: makes a workflow without steps; answers with its id.
-- called by: enqueue/flows: for the clients, in the caller's transaction. $1 name, $2 callbacks (json: by event a job, or null).
-- index: none is read.
-- locks: none but the new row.
insert into fastq.workflow (name, callbacks) values ($1::text, $2::text::jsonb) returning id
