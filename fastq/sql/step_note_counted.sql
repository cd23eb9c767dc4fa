-- what: writes the record of a step or of a cursor of a job that is still ours, as step_note does, of a job of which the attempts count
--       from its last progress on. A step that is new, and a cursor that moves, raise the number of attempts that it has: by as many as
--       its meta says, from this one on. Answers like step_note, and with that number.
-- called by: steps/attempt: before the next step begins. A block of job.step_transaction runs it on a connection of the user's.
--            Parameters as in step_note.
-- index: job_pkey; job_step_pkey.
-- locks: the job's row, as step_note.
with mine as materialized (
    select id, max_attempts, (meta -> 'steps'::text) is null or (meta -> 'expires'::text) is not null as unmarked,
        case when exists (
                 select from fastq.job_step where job_step.job = job.id and sort = $3::text and name = $4::text and output::text = $9::text)
             then max_attempts else least(attempt + (meta ->> 'attempts'::text)::int, 32767) end as allowed
    from fastq.job
    where id = $1::bigint and claim = $2::bigint and state = 'running'
    for no key update
), marked as (
    update fastq.job
    set meta = '{"steps": 0}'::jsonb || (coalesce(job.meta, '{}') - 'expires'::text), max_attempts = mine.allowed
    from mine
    where job.id = mine.id and (mine.unmarked or mine.allowed <> mine.max_attempts)
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
) - clock_timestamp()))::float8, (select allowed from mine)
