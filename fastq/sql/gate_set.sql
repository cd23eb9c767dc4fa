-- what: sets the number of a gate, over the one in the code, and wakes the gatekeeper. Answers with the number set before, or null.
-- called by: admin/gates: set. $1 gate, $2 number, $3 channel (null: no hint).
-- index: gate_pkey.
-- locks: the gate's row.
with before as (
    select at_most from fastq.gate where name = $1::text
), stored as (
    insert into fastq.gate (name, at_most)
    values ($1::text, $2::int)
    on conflict (name) do update set at_most = excluded.at_most, set_at = clock_timestamp()
)
select (select at_most from before), case when $3::text is not null then pg_notify($3::text, '@gate') end
