-- what: the admitted jobs by line, as JSON, and the end of all events up to this moment: what they tell is in the rows already, but for the
--       events of rates, which it answers with; those of the admitted jobs at rates that wait for a process; and the debts of keys.
-- called by: lead/gate/gate_log: when a term begins, and where the gatekeeper is not sure of its memory. $1-$3 fence.
-- index: lease_pkey; job_pkey, of jobs at rates; the permits, the log and the debts are read from end to end.
-- locks: the lease's row, for key share; the events.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), gone as (
    delete from fastq.gate_event where exists (select from held) returning id, queue, gates, jobs, priority, job, until
), admitted as (
    select queue, gates, count(*) as jobs from fastq.gate_permit group by 1, 2
), unstarted as (
    select queue, gates, job
    from fastq.gate_permit
    where case when strpos(gates, '["rate",') > 0 then (
        select job.state = 'available' or starts_with(coalesce(job.waits_for, ''), 'worker:') from fastq.job where job.id = gate_permit.job
    ) end
)
select (select count(*) from held), (select count(*) from gone), (select coalesce(max(id), 0) from gone),
    (select json_agg(json_build_array(queue, gates, jobs))::text from admitted),
    (select json_agg(json_build_array(queue, gates, jobs, priority, job, extract(epoch from until - clock_timestamp())::float8))::text
     from gone where until is not null),
    (select json_agg(json_build_array(queue, gates, job))::text from unstarted),
    (select json_agg(json_build_array(gate, key, extract(epoch from until - clock_timestamp())::float8))::text
     from fastq.gate_debt where until > clock_timestamp())
