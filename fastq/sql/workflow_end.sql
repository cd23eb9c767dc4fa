-- what: ends those of the workflows $1 of which all steps have ended, opens those again of which one runs once more, and enqueues the
--       callbacks that are due: each is taken out of its workflow by this. Answers with the workflows that have ended now, as JSON: id, name, completed, cancelled, discarded;
--       and with the wake-ups that the callbacks take.
-- called by: enqueue/flows, lead/workflow/steward: for a workflow without steps; in the transaction that has counted the steps.
-- index: workflow_pkey.
-- locks: the workflows' rows, which the transaction has locked already, or made.
with reckoned as materialized (
    select id, ended_at, completed = steps as succeeds, completed + cancelled + discarded >= steps as ends, discarded, callbacks
    from fastq.workflow
    where id = any ($1::bigint[])
), fired as materialized (
    select reckoned.id as workflow, callback.event, callback.item,
        coalesce((callback.item ->> 'at')::timestamptz, clock_timestamp() + make_interval(secs => (callback.item ->> 'delay')::float8)) as due
    from reckoned
    cross join jsonb_each(reckoned.callbacks) as callback (event, item)
    where callback.event = 'on_discard' and reckoned.discarded > 0
       or callback.event = 'on_finish' and reckoned.ends
       or callback.event = 'on_success' and reckoned.succeeds
), placed as materialized (
    select workflow, event, item, case when due > clock_timestamp() then due end as scheduled_at,
        case when due > clock_timestamp() then null else item -> 'meta' ->> 'gates' end as waits_for
    from fired
), enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at, waits_for)
    select item ->> 'kind', item ->> 'queue', (item ->> 'priority')::smallint, (item ->> 'max_attempts')::smallint, (item ->> 'args')::json,
        string_to_array(item ->> 'tags', E'\x1f'),
        case when jsonb_typeof(item -> 'meta') = 'object' then item -> 'meta' else '{}' end || jsonb_build_object('workflow', jsonb_build_array(workflow)),
        (case when scheduled_at is not null then 'scheduled' when waits_for is not null then 'waiting' else 'available' end)::fastq.state,
        case when scheduled_at is null and waits_for is null then nextval('fastq.job_seq') end,
        scheduled_at, waits_for
    from placed
    returning id, queue, priority, waits_for, scheduled_at
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from enqueued where waits_for is not null group by queue, waits_for, priority
    returning id
), changed as (
    update fastq.workflow
    set ended_at = case when reckoned.ends then coalesce(workflow.ended_at, clock_timestamp()) end,
        callbacks = workflow.callbacks - array(select event from fired where fired.workflow = workflow.id)
    from reckoned
    where workflow.id = reckoned.id
      and (reckoned.ends <> (reckoned.ended_at is not null) or exists (select from fired where fired.workflow = reckoned.id))
    returning workflow.id, workflow.name, workflow.completed, workflow.cancelled, workflow.discarded, reckoned.ends and reckoned.ended_at is null as now
)
select (select json_agg(json_build_array(id, name, completed, cancelled, discarded))::text from changed where now), 
    (select coalesce(array_agg(distinct case when scheduled_at is not null then '@due' when waits_for is not null then '@gate' else queue end), '{}') from enqueued)
