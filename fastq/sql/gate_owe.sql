-- what: puts debts of keys at rates on record, and deletes those that are past. Its commit does not wait for the disk.
-- called by: lead/gate/gatekeeper. $1-$3 fence. Arrays of one length: $4 gates, $5 keys, $6 seconds for which nothing may start there.
-- index: lease_pkey; gate_debt_pkey; the table is read from end to end: keys in debt are few.
-- locks: the lease's row, for key share; rows that the gatekeeper alone writes.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), given as (
    select gate, key, clock_timestamp() + make_interval(secs => seconds) as until
    from unnest($4::text[], $5::text[], $6::float8[]) as given (gate, key, seconds)
), past as (
    delete from fastq.gate_debt
    where exists (select from held) and until < clock_timestamp()
      and not exists (select from given where given.gate = gate_debt.gate and given.key = gate_debt.key)
    returning gate
), kept as (
    insert into fastq.gate_debt (gate, key, until) select gate, key, until from given where exists (select from held)
    on conflict (gate, key) do update set until = excluded.until
    returning gate
)
select (select count(*) from held), (select count(*) from kept), (select count(*) from past), set_config('synchronous_commit', 'off', true)
