-- what: changes living jobs that do not run, those with the ids $1 (joined by commas): their queue $2, priority $3, max_attempts $4 (at least
--       one more than they have had), args $5 (JSON text), and the time $6 from which on they may start; null: as it is. An available
--       job with another queue or priority comes last there. Answers for each id with 'edited', 'running', 'waiting' (for steps or a signal,
--       and $6 is a time), 'gated' (it goes through gates, which know its queue, priority and args), 'encrypted' (its args are, and those given
--       are not), 'versioned' (its args have a version, and new ones might not be of it), 'other' (it is not of kind $7; null: any) or 'gone'.
-- called by: admin/bulk/single, lead/bulk/verbs. $8 channel (null: no hint).
-- index: job_pkey.
-- locks: the living rows, in the order of their ids.
with mine as (
    select id, case when state = 'running' then 'running' when kind <> $7::text then 'other'
            when meta ->> 'gates'::text is not null
                and (($2::text is not null or $3::smallint is not null) or ($5::text is not null or $6::text is not null)) then 'gated'
            when $6::text is not null and waits_for is not null and not starts_with(waits_for, 'worker:') then 'waiting'
            when $5::text is not null and meta ->> 'version'::text is not null then 'versioned'
            when $5::text is not null and strpos(args::text, '"$fq"') > 0 and strpos($5::text, '"$fq"') = 0 then 'encrypted'
        end as refused,
        case when $6::text::timestamptz > statement_timestamp() then 'later' when $6::text is not null then 'now'
            when starts_with(waits_for, 'worker:') and $2::text is not null then 'now'
            when state = 'available' and ($2::text is not null or $3::smallint is not null) then 'now'
        end as moved
    from fastq.job
    where id = any (string_to_array($1::text, ',')::bigint[])
    order by id
    for update
), changed as (
    update fastq.job
    set queue = coalesce($2::text, queue), priority = coalesce($3::smallint, priority),
        max_attempts = greatest(coalesce($4::smallint, max_attempts), least(attempt + 1, 32767)), args = coalesce($5::text::json, args),
        state = (case when moved = 'now' then 'available' when moved = 'later' and state <> 'retryable' then 'scheduled' else state::text end)::fastq.state,
        seq = case when moved = 'now' then nextval('fastq.job_seq') when moved is null then seq end,
        scheduled_at = case when moved = 'later' then $6::text::timestamptz when moved is null then scheduled_at end,
        waits_for = case when moved is null then waits_for end
    from mine
    where job.id = mine.id and mine.refused is null
    returning job.id, case when seq is not null then queue when scheduled_at is not null then '@due' end as wake
), woken as (
    select count(pg_notify($8::text, wake)) from (select distinct wake from changed where wake is not null) as hint where $8::text is not null
)
select given.id, case when changed.id is not null then 'edited' when mine.refused is not null then mine.refused else 'gone' end
from unnest(string_to_array($1::text, ',')::bigint[]) with ordinality as given (id, nth)
left join mine on mine.id = given.id
left join changed on changed.id = given.id
cross join woken
order by nth
