-- what: up to $5 jobs that fit the filter $1 (JSON), newest first, of the ids $2 (joined by commas): living ones if $3, finished ones if $4. Answers
--       as job_search does with the address and the job.
-- called by: admin/search/walks, admin/exports/exporting: where another index than that of ids has told which jobs come into question.
-- index: job_pkey; job_archive_id (block ranges), once for all ids, which lie near each other.
-- locks: none.
with wanted as materialized (
    select array(select jsonb_array_elements_text(asked -> 'states'))::fastq.state[] as states,
        array(select jsonb_array_elements_text(asked -> 'not_states'))::fastq.state[] as not_states,
        array(select jsonb_array_elements_text(asked -> 'kinds')) as kinds, array(select jsonb_array_elements_text(asked -> 'not_kinds')) as not_kinds,
        array(select jsonb_array_elements_text(asked -> 'queues')) as queues, array(select jsonb_array_elements_text(asked -> 'not_queues')) as not_queues,
        array(select jsonb_array_elements_text(asked -> 'tags')) as tags, array(select jsonb_array_elements_text(asked -> 'not_tags')) as not_tags,
        array(select jsonb_array_elements_text(asked -> 'errors')) as errors, array(select jsonb_array_elements_text(asked -> 'not_errors')) as not_errors,
        (asked #>> '{priority,0}'::text[])::bigint as priority_from, (asked #>> '{priority,1}'::text[])::bigint as priority_to,
        (asked #>> '{attempt,0}'::text[])::bigint as attempt_from, (asked #>> '{attempt,1}'::text[])::bigint as attempt_to,
        (asked #>> '{moment,0}'::text[])::timestamptz as moment_from, (asked #>> '{moment,1}'::text[])::timestamptz as moment_to,
        (asked #>> '{created,0}'::text[])::timestamptz as created_from, (asked #>> '{created,1}'::text[])::timestamptz as created_to,
        (asked #>> '{due,0}'::text[])::timestamptz as due_from, (asked #>> '{due,1}'::text[])::timestamptz as due_to,
        (asked #>> '{ended,0}'::text[])::timestamptz as ended_from, (asked #>> '{ended,1}'::text[])::timestamptz as ended_to,
        asked ->> 'workflow' as workflow, asked ->> 'gate' as gate
    from (select $1::text::jsonb as asked) as given
), fields as materialized (
    select field ->> 0 as place, array(select jsonb_array_elements_text(field -> 1)) as path, field ->> 2 as value, (field ->> 3)::boolean as without
    from jsonb_array_elements($1::text::jsonb -> 'fields') as field
), sought as materialized (
    select string_to_array($2::text, ',')::bigint[] as ids
)
select address, id, state, kind, queue, priority, attempt, max_attempts, given.tags, created_at, scheduled_at, attempted_at, finalized_at, error, waits_for
from (
    select id, state, kind, queue, priority, attempt, max_attempts, tags, created_at, scheduled_at, attempted_at,
        null::timestamptz as finalized_at, errors -> -1 ->> 'error' as error, waits_for, null::text as address, args, meta
    from fastq.job
    where $3::boolean and id = any ((select ids from sought)::bigint[])
    union all
    select id, state, kind, queue, priority, attempt, max_attempts, tags, created_at, null, attempted_at,
        finalized_at, errors -> -1 ->> 'error', null, ctid::text, args, meta
    from fastq.job_archive
    where $4::boolean and id >= (select min(id) from unnest((select ids from sought)) as one (id))
      and id <= (select max(id) from unnest((select ids from sought)) as one (id))
      and id in (select unnest(ids) from sought)
) as given
cross join wanted
where (cardinality(wanted.states) = 0 or state = any (wanted.states)) and state <> all (wanted.not_states)
      and (cardinality(wanted.kinds) = 0 or kind = any (wanted.kinds)) and kind <> all (wanted.not_kinds)
      and (cardinality(wanted.queues) = 0 or queue = any (wanted.queues)) and queue <> all (wanted.not_queues)
      and (cardinality(wanted.tags) = 0 or not exists (select from unnest(wanted.tags) as tag where tag <> all (coalesce(given.tags, '{}'))))
      and not (coalesce(given.tags, '{}') && wanted.not_tags)
      and coalesce(priority >= wanted.priority_from, true) and coalesce(priority <= wanted.priority_to, true)
      and coalesce(attempt >= wanted.attempt_from, true) and coalesce(attempt <= wanted.attempt_to, true)
      and coalesce(coalesce(finalized_at, created_at) >= wanted.moment_from, true) and coalesce(coalesce(finalized_at, created_at) <= wanted.moment_to, true)
      and coalesce(created_at >= wanted.created_from, true) and coalesce(created_at <= wanted.created_to, true)
      and (wanted.due_from is null or scheduled_at >= wanted.due_from) and (wanted.due_to is null or scheduled_at <= wanted.due_to)
      and (wanted.ended_from is null or finalized_at >= wanted.ended_from) and (wanted.ended_to is null or finalized_at <= wanted.ended_to)
      and (cardinality(wanted.errors) = 0 or not exists (select from unnest(wanted.errors) as part where strpos(lower(coalesce(error, '')), part) = 0))
      and (cardinality(wanted.not_errors) = 0 or not exists (select from unnest(wanted.not_errors) as part where strpos(lower(coalesce(error, '')), part) > 0))
      and (wanted.workflow is null or (meta #>> '{workflow,0}'::text[] = wanted.workflow and meta #>> '{workflow,1}'::text[] is not null))
      and (wanted.gate is null or exists (select from jsonb_array_elements((meta ->> 'gates'::text)::jsonb) as entry where entry ->> 1 = wanted.gate))
      and not exists (
          -- A text that Postgres cannot make of its escapes is no value of any path: it would end the whole statement.
          select from fields
          where (coalesce(case when place = 'meta' then meta #>> path when given.args::text ~ E'\\\\u0000|\\\\u[dD][89a-fA-F]' then null else given.args #>> path end,
              'null') = value) = without
      )
order by id desc
limit $5::bigint
