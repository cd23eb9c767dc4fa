-- what: takes up to $2 events of the workflows $1 from the log, and writes the states of their steps and the counts of the workflows.
--       Answers with the number of events, with the steps of which those after them have to hear, as JSON: workflow, step, name, job,
--       state (null: it is back), the steps that have cancelled it; and with the workflows that were counted.
-- called by: lead/workflow/steward: in the transaction that has locked the workflows.
-- index: workflow_event_of; workflow_event_pkey; workflow_step_pkey; workflow_pkey.
-- locks: the events; the steps; the workflows' rows are locked already.
with taken as (
    delete from fastq.workflow_event
    where id = any (array(
        select id from fastq.workflow_event where workflow = any ($1::bigint[]) order by workflow, id limit $2::bigint
    ))
    returning id, workflow, step, state, output
), last as materialized (
    select distinct on (workflow, step) workflow, step, state, output from taken order by workflow, step, id desc
), before as materialized (
    select step.workflow, step.step, step.name, step.job, step.state as had, step.passed, step.because, last.state, last.output
    from last join fastq.workflow_step as step on step.workflow = last.workflow and step.step = last.step
), stepped as (
    update fastq.workflow_step as step
    set state = before.state, output = before.output, passed = before.state is not null,
        fate = case when before.state is null then step.fate end,
        because = case when before.state <> 'completed' then step.because end
    from before
    where step.workflow = before.workflow and step.step = before.step
), counted as (
    -- Each workflow, also where no number changes: an addition with an older snapshot is refused by this.
    update fastq.workflow
    set completed = workflow.completed + change.completed, cancelled = workflow.cancelled + change.cancelled,
        discarded = workflow.discarded + change.discarded
    from (
        select workflow,
            (count(*) filter (where state = 'completed') - count(*) filter (where had = 'completed'))::int as completed,
            (count(*) filter (where state = 'cancelled') - count(*) filter (where had = 'cancelled'))::int as cancelled,
            (count(*) filter (where state = 'discarded') - count(*) filter (where had = 'discarded'))::int as discarded
        from before
        group by workflow
    ) as change
    where workflow.id = change.workflow
    returning workflow.id
)
select (select count(*) from taken),
    (select json_agg(json_build_array(workflow, step, coalesce(name, step::text), job, state, because) order by workflow, step)::text
     from before where (state is not null) <> passed),
    (select coalesce(array_agg(id), '{}') from counted)
