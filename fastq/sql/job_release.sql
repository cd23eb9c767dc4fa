-- what: hands back jobs that were claimed and never started: no attempt is charged. They get a new seq (behind the cursor they would be late).
-- called by: process, producer: at a stop with jobs in the inbox; after a claim whose answer never came. $1 ids bigint[], $2 claims bigint[], $3 channel.
-- index: job_pkey.
-- locks: the rows.
with released as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), attempt = attempt - 1, claim = null
    where id = any ($1::bigint[]) and claim = any ($2::bigint[]) and state = 'running'
    returning queue
), woken as (
    select pg_notify($3::text, queue) from (select distinct queue from released) as hint
)
select (select count(*) from released), (select count(*) from woken)
