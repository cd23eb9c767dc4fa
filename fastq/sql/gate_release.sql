-- what: has the discarded jobs $1 hold their keys no longer, and tells the gatekeeper. Answers with the ids of those that did.
-- called by: admin/held: release. $2 channel (null: no hint).
-- index: gate_permit_pkey; job_pkey.
-- locks: the permits.
with given_up as (
    delete from fastq.gate_permit
    where job = any ($1::bigint[]) and starts_with(gates, '[["order-hold"')
      and not exists (select from fastq.job where job.id = gate_permit.job)
    returning job, queue, gates
), released as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from given_up group by queue, gates returning id
), woken as (
    select pg_notify($2::text, '@gate') from (select from released limit 1) as hint where $2::text is not null
)
select (select coalesce(array_agg(job order by job), '{}') from given_up), (select count(*) from woken)
