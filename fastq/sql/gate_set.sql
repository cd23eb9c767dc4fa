-- what: sets the number of a gate, over the one in the code, and wakes the gatekeeper; of a rate also the time and the burst, where they
--       are given. Answers with the number set before, or null.
-- called by: admin/gates: set. $1 gate, $2 number, $3 seconds and $4 burst (null: the code's), $5 channel (null: no hint).
-- index: gate_pkey.
-- locks: the gate's row.
with before as (
    select at_most from fastq.gate where name = $1::text
), stored as (
    insert into fastq.gate (name, at_most, per, burst)
    values ($1::text, $2::int, $3::float8, $4::int)
    on conflict (name) do update set at_most = excluded.at_most, per = excluded.per, burst = excluded.burst, set_at = clock_timestamp()
)
select (select at_most from before), case when $5::text is not null then pg_notify($5::text, '@gate') end
