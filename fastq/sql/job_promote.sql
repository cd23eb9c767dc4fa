-- what: makes those of the jobs $5 available that are still due; says how many. Notes which seqs they got, and when the last of
--       them was due: the statistics know by that how long they have waited.
-- called by: lead/chores/promote. $1-$3 fence, $4 queues (null or empty: every queue), $6 channel (null: no hint).
-- index: job_pkey; lease_pkey; gate_permit_pkey.
-- locks: the lease's row, for key share; the jobs' rows; locked ones are skipped and come next time.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), due as (
    select job.id, job.scheduled_at, job.meta ->> 'gates'::text is not null and (select gate_permit.job from fastq.gate_permit where gate_permit.job = job.id) is null as waits
    from unnest($5::bigint[]) as given (id)
    join fastq.job on job.id = given.id
    where exists (select from held) and scheduled_at <= clock_timestamp() and state = any ('{scheduled,retryable}'::fastq.state[])
      and (coalesce(cardinality($4::text[]), 0) = 0 or queue = any ($4::text[]))
    for update of job skip locked
), promoted as (
    update fastq.job
    set state = (case when waits then 'waiting' else 'available' end)::fastq.state,
        seq = case when not waits then nextval('fastq.job_seq') end,
        scheduled_at = null,
        waits_for = case when waits then meta ->> 'gates'::text end
    from due
    where job.id = due.id
    returning job.id, job.queue, job.priority, job.waits_for, job.seq, due.scheduled_at as due_at
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from promoted where waits_for is not null group by queue, waits_for, priority
    returning id
), noted as (
    insert into fastq.stat_due (first_seq, last_seq, at)
    select min(seq), max(seq), max(due_at) from promoted where seq is not null having isfinite(max(due_at))
    returning first_seq
), woken as (
    select pg_notify($6::text, wake)
    from (select case when waits_for is null then queue else '@gate' end as wake from promoted group by 1) as hint where $6::text is not null
)
select (select count(*) from held), (select count(*) from promoted), (select count(*) from woken)
