-- what: makes those of the jobs $5 available that still wait for a worker; says how many.
-- called by: lead/chores/admit. $1-$3 fence, $4 queues (null or empty: every queue), $6 channel (null: no hint).
-- index: job_pkey; lease_pkey.
-- locks: the lease's row, for key share; the jobs' rows; locked ones are skipped and come next time.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), resting as (
    select job.id
    from unnest($5::bigint[]) as given (id)
    join fastq.job on job.id = given.id
    where exists (select from held) and state = 'waiting' and starts_with(waits_for, 'worker:')
      and (coalesce(cardinality($4::text[]), 0) = 0 or queue = any ($4::text[]))
    for update of job skip locked
), admitted as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), waits_for = null
    from resting
    where job.id = resting.id
    returning job.queue
), woken as (
    select pg_notify($6::text, queue) from (select distinct queue from admitted) as hint where $6::text is not null
)
select (select count(*) from held), (select count(*) from admitted), (select count(*) from woken)
