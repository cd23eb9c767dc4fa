-- what: lets those of the jobs $4 go that still wait at gates, in the order given; answers with their ids.
--       Its commit does not wait for the disk: the claim and the end of such a job commit later, and so after it in the server's log.
-- called by: lead/gate/gatekeeper. $1-$3 fence, $5 channel (null: no hint).
-- index: job_pkey; lease_pkey.
-- locks: the lease's row, for key share; the jobs' rows; locked ones are skipped, and the gatekeeper tries them again.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), waiting as materialized (
    select job.ctid as address, given.nth
    from unnest($4::bigint[]) with ordinality as given (id, nth)
    join fastq.job on job.id = given.id
    where exists (select from held) and job.state = 'waiting' and starts_with(job.waits_for, '[')
    for update of job skip locked
), numbered as materialized (
    select address, nextval('fastq.job_seq') as seq from (select address from waiting order by nth) as sorted
), admitted as (
    update fastq.job
    set state = 'available', seq = numbered.seq, waits_for = null
    from numbered
    where job.ctid = numbered.address
    returning job.id, job.queue, job.meta
), permitted as (
    -- A permit may be there already: one that a program older than gates has left, of a job that was run again by hand.
    insert into fastq.gate_permit (job, queue, gates) select id, queue, meta ->> 'gates'::text from admitted
    on conflict (job) do update set queue = excluded.queue, gates = excluded.gates
    returning job
), woken as (
    select pg_notify($5::text, queue) from (select distinct queue from admitted) as hint where $5::text is not null
)
select (select count(*) from held), (select coalesce(array_agg(job), '{}') from permitted), (select count(*) from woken),
    set_config('synchronous_commit', 'off', true)
