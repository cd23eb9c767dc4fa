-- what: tells the gatekeeper that jobs have come to wait by COPY, in the lines given.
-- called by: enqueue/client, enqueue/client_async: after the rows, in the same transaction. Lists of one length as text, elements joined
--            by a record separator: $1 queues, $2 gates (as a string of JSON in ASCII, for any encoding of a connection), $3 priorities.
-- index: none is read.
-- locks: none but the new rows.
insert into fastq.gate_event (queue, gates, jobs, priority, job)
select queue, gates, 2, priority, 0  -- from the first of this priority on: where among them the new ones are, nobody looked
from unnest(string_to_array($1::text, E'\x1e'), string_to_array($2::text::json #>> '{}'::text[], E'\x1e'), string_to_array($3::text, E'\x1e')::smallint[])
    as given (queue, gates, priority)
returning id
