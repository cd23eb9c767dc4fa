-- what: takes back the number of a gate that an operator has set, so that the code's holds, and wakes the gatekeeper. Answers with that
--       number; no row if none was set.
-- called by: admin/gates: remove. $1 gate, $2 channel (null: no hint).
-- index: gate_pkey.
-- locks: the gate's row.
with removed as (
    delete from fastq.gate where name = $1::text returning at_most
)
select at_most, case when $2::text is not null then pg_notify($2::text, '@gate') end from removed
