-- what: makes living jobs that wait available now, as job_rerun does; answers for each id with 'available', 'running', 'waiting' (a step that
--       waits for those before it), 'already' (it is available) or 'gone'.
-- called by: lead/bulk/verbs: for an operation. $1 ids, $2 channel (null: no hint).
-- index: job_pkey; gate_permit_pkey.
-- locks: the living rows, in the order of their ids.
with mine as (
    select id, state, coalesce(waits_for, '') = 'workflow' as stays,
        meta ->> 'gates'::text is not null and (select gate_permit.job from fastq.gate_permit where gate_permit.job = job.id) is null as waits
    from fastq.job where id = any ($1::bigint[]) order by id for update
), hurried as (
    update fastq.job
    set state = (case when waits then 'waiting' else 'available' end)::fastq.state,
        seq = case when not waits then nextval('fastq.job_seq') end,
        scheduled_at = null, waits_for = case when waits then meta ->> 'gates'::text end
    from mine
    where job.id = mine.id and mine.state = any ('{scheduled,retryable,waiting}'::fastq.state[]) and not mine.stays
    returning job.id, queue, priority, waits_for
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from hurried where waits_for is not null group by queue, waits_for, priority
    returning id
), woken as (
    select count(pg_notify($2::text, wake))
    from (select case when waits_for is null then queue else '@gate' end as wake from hurried group by 1) as hint where $2::text is not null
)
select given.id, case when hurried.id is not null then 'available' when mine.state = 'running' then 'running' when mine.stays then 'waiting'
        when mine.id is not null then 'already' else 'gone' end
from unnest($1::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join hurried on hurried.id = given.id
cross join woken
order by nth
