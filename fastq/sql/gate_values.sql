-- what: the values of gates that operators have set: name, number, and of rates the seconds and the burst, or null.
-- called by: admin/gates, lead/gate/gatekeeper: to list them, and when a supervisor starts; in each of its runs, but for those that
--            follow another closely.
-- index: gate_pkey, from end to end: as many rows as there are gates with values of their own.
-- locks: none.
select name, at_most, per, burst from fastq.gate order by name
