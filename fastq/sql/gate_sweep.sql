-- what: removes the permits of jobs that a program older than gates has ended, also where such a job was run again by hand and waits
--       at its gates; tells the gatekeeper. Answers with them by line, as JSON.
-- called by: lead/gate/gatekeeper: now and then. $1-$3 fence.
-- index: lease_pkey; job_pkey; job_archive_id (block ranges), for the permits of discarded jobs that hold their keys; the permits are read from end to end.
-- locks: the lease's row, for key share; the permits.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), gone as (
    delete from fastq.gate_permit
    where exists (select from held) and not exists (
        select from fastq.job where job.id = gate_permit.job and not starts_with(coalesce(job.waits_for, ''), '[')
    ) and case when starts_with(gates, '[["order-hold"') then (
        select count(*) from fastq.job where job.id = gate_permit.job
    ) + (
        select count(*) from fastq.job_archive where job_archive.id = gate_permit.job and job_archive.state <> 'discarded'
    ) > 0 else true end
    returning queue, gates
), repaired as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from gone group by queue, gates
    returning queue, gates, jobs
)
select (select count(*) from held), (select json_agg(json_build_array(queue, gates, jobs))::text from repaired)
