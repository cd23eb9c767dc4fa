-- what: makes up to $1 due jobs available; says how many, and in how many seconds the next one is due (null: none waits).
-- called by: maintainer (promote). $2 channel.
-- index: job_due.
-- locks: the due rows; locked ones are skipped and come next time.
with due as (
    select id from fastq.job
    where scheduled_at is not null and scheduled_at <= clock_timestamp() and state in ('scheduled', 'retryable')
    order by scheduled_at
    limit $1::bigint
    for update skip locked
), promoted as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), scheduled_at = null
    where id in (select id from due)
    returning queue
), woken as (
    select pg_notify($2::text, queue) from (select distinct queue from promoted) as hint
)
select (select count(*) from promoted),
    (select extract(epoch from min(scheduled_at) - clock_timestamp())::float8 from fastq.job where scheduled_at > clock_timestamp()),
    (select count(*) from woken)
