-- what: gives back the jobs of processes that have expired (their host or supervisor is gone) and of processes that are not known at all.
-- called by: maintainer (rescue). $1 grace in seconds for unknown processes, $2 channel, $3 error (json text).
-- index: none: it reads all running jobs, so it runs only when a process has expired, and now and then.
-- locks: the rows of expired processes; jobs locked by others are skipped and come next time.
with expired as (
    delete from fastq.process where expires_at < clock_timestamp() returning id
), mine as (
    select job.id, job.cancel_requested, job.attempt >= job.max_attempts as ends
    from fastq.job
    where state = 'running'
      and (claim is null or claim >> 32 in (select id from expired)
           or (attempted_at < clock_timestamp() - make_interval(secs => $1::float8)
               and not exists (select from fastq.process where process.id = claim >> 32)))
    for update skip locked
), again as (
    update fastq.job
    set state = 'available', seq = nextval('fastq.job_seq'), claim = null,
        errors = coalesce(errors, '[]') || jsonb_build_array($3::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at))
    from mine
    where job.id = mine.id and not ends and not mine.cancel_requested
    returning job.id, queue
), ended as (
    delete from fastq.job using mine
    where job.id = mine.id and (ends or mine.cancel_requested)
    returning job.*, ends
), archived as (
    insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
        queue, kind, args, tags, errors)
    select id, created_at, attempted_at, now(), (case when ends then 'discarded' else 'cancelled' end)::fastq.state,
        priority, attempt, max_attempts, crashes, queue, kind, args, tags,
        coalesce(errors, '[]') || jsonb_build_array($3::jsonb || jsonb_build_object('attempt', attempt, 'at', attempted_at))
    from ended
    returning id
), woken as (
    select pg_notify($2::text, queue) from (select distinct queue from again) as hint
)
select (select count(*) from expired), (select count(*) from again), (select count(*) from archived), (select count(*) from woken)
