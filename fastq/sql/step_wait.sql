-- what: looks for a signal of a job that is still ours, and notes at the first look until when the job waits for it: it has begun, and
--       expires no more. A wait whose time
--       is over is noted as such, for good. Answers with 0 if the job is no longer ours, the value of the signal (as JSON) and its time,
--       whether the wait was over first, the seconds that are left, and how many signals the job had been sent: whoever parks it
--       compares these.
-- called by: steps/attempt, steps/remembered: where a job waits for a signal; the latter answers it in a test. $1 job, $2 claim, $3 name, $4 attempt, $5 seconds (null: for ever).
-- index: job_pkey; job_step_pkey.
-- locks: the job's row, as step_note.
with mine as materialized (
    select id, (meta -> 'steps'::text) is null or (meta -> 'expires'::text) is not null as unmarked, coalesce((meta ->> 'steps'::text)::int, 0) as signals from fastq.job
    where id = $1::bigint and claim = $2::bigint and state = 'running'
    for no key update
), seen as (
    -- The row above may be newer than the statement, and this one is not: these are the signals that are in sight here.
    select coalesce((meta ->> 'steps'::text)::int, 0) as signals from fastq.job where id = $1::bigint
), marked as (
    update fastq.job
    set meta = '{"steps": 0}'::jsonb || (coalesce(job.meta, '{}') - 'expires'::text)
    from mine
    where job.id = mine.id and mine.unmarked
), came as (
    select output::text as output, at from fastq.job_step where job = $1::bigint and sort = 'signal' and name = $3::text
), waits as (
    select until, output is not null as over from fastq.job_step where job = $1::bigint and sort = 'wait' and name = $3::text
), noted as (
    insert into fastq.job_step (job, sort, name, attempt, until)
    select id, 'wait', $3::text, $4::int, clock_timestamp() + make_interval(secs => $5::float8) from mine
    on conflict do nothing
    returning until
), late as (
    update fastq.job_step
    set output = 'true'
    from mine
    where job_step.job = mine.id and job_step.sort = 'wait' and job_step.name = $3::text and job_step.output is null
      and job_step.until <= clock_timestamp() and not exists (select from came)
      and mine.signals = (select signals from seen)
    returning job_step.job
)
select (select count(*) from mine), came.output, came.at, coalesce(waits.over, false) or exists (select from late),
    extract(epoch from (coalesce((select until from noted), waits.until) - clock_timestamp()))::float8,
    coalesce((select signals from seen), 0)
from (select count(*) from late) as judged
left join came on true
left join waits on true
