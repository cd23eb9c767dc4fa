-- what: gives back the jobs of a dead process of this host: those in $1, and whatever its unanswered claim ($2, after seq $3 in queue $4) took.
--       Jobs in $5 had started: their attempt counts, and the last attempt ends them. Jobs in $6, which are in $5 too, were executing:
--       the death counts, and after $7 crashes they are discarded.
-- called by: supervisor, when a child has died and its database sessions have ended. $8 process, $9 channel, $10 error (json text).
-- index: job_pkey for the ids; job_ready for the unanswered claim.
-- locks: the rows.
with lost as (
    select id from fastq.job
    where id = any ($1::bigint[]) and state = 'running' and claim >> 32 = $8::bigint
    union all
    select id from fastq.job
    where queue = $4::text and priority between 1 and 4 and seq > $3::bigint and state = 'running' and claim = $2::bigint
), mine as (
    select job.id, job.id = any ($5::bigint[]) as started, job.id = any ($6::bigint[]) as executing,
        job.id = any ($6::bigint[]) and job.crashes + 1 >= $7::int or job.id = any ($5::bigint[]) and job.attempt >= job.max_attempts as ends,
        job.cancel_requested
    from fastq.job where id in (select id from lost) and state = 'running' and claim >> 32 = $8::bigint
    for update
), again as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), claim = null,
        attempt = attempt - (not started)::int::smallint,
        crashes = crashes + executing::int::smallint,
        errors = case when executing then coalesce(errors, '[]') || jsonb_build_array(
            $10::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at)) else errors end
    from mine
    where job.id = mine.id and not ends and not mine.cancel_requested
    returning job.id, queue
), ended as (
    delete from fastq.job using mine
    where job.id = mine.id and (ends or mine.cancel_requested)
    returning job.*, mine.ends, mine.executing
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors)
    select id, created_at, attempted_at, now(), (case when ends then 'discarded' else 'cancelled' end)::fastq.state,
        priority, attempt, max_attempts, crashes + executing::int::smallint, queue, kind, args, tags,
        coalesce(errors, '[]') || jsonb_build_array($10::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at))
    from ended
    returning id
), woken as (
    select pg_notify($9::text, queue) from (select distinct queue from again) as hint
)
select (select count(*) from again), (select count(*) from archived), (select count(*) from woken)
