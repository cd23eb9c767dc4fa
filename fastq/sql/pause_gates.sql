-- what: the gates, and keys of gates as JSON, that are paused; an empty key stands for the whole gate.
-- called by: lead/gate/gatekeeper: together with the values of gates.
-- index: none: as many rows as there are pauses.
-- locks: none.
select name::text, key::text from fastq.pause where sort = 'gate'
