-- what: writes a record of a job that is still ours, and marks the job as one with records: it has begun, and expires no more. A
--       record of that sort and name stays as it is, but for a cursor's. Answers with 0 if the job is no longer ours, and with the
--       seconds up to the end of the sleep.
-- called by: steps/attempt, steps/remembered: before the next step begins; the latter answers it in a test. A block of
--            job.step_transaction runs it on a connection of the user's. $1 job, $2 claim, $3 sort, $4 name, $5 attempt, $6 seconds and $7 time up to
--            which it sleeps (one of them or none), $8 seconds that the step took, $9 output (json text or null).
-- index: job_pkey; job_step_pkey.
-- locks: the job's row: a statement that takes the job away waits, so whoever works it next finds the record.
with mine as materialized (
    select id, (meta -> 'steps'::text) is null or (meta -> 'expires'::text) is not null as unmarked
    from fastq.job
    where id = $1::bigint and claim = $2::bigint and state = 'running'
    for no key update
), marked as (
    update fastq.job
    set meta = '{"steps": 0}'::jsonb || (coalesce(job.meta, '{}') - 'expires'::text)
    from mine
    where job.id = mine.id and mine.unmarked
), noted as (
    insert into fastq.job_step as old (job, sort, name, attempt, until, took, output)
    select id, $3::text, $4::text, $5::int, coalesce($7::timestamptz, clock_timestamp() + make_interval(secs => $6::float8)), $8::float8, $9::json
    from mine
    on conflict (job, sort, name) do update
    set output = excluded.output, attempt = excluded.attempt, at = excluded.at
    where old.sort = 'cursor'
    returning until
)
select (select count(*) from mine), extract(epoch from (coalesce(
    (select until from noted),
    (select until from fastq.job_step where job = $1::bigint and sort = $3::text and name = $4::text)
) - clock_timestamp()))::float8
