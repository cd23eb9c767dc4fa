-- what: enqueues jobs as steps of a workflow and returns their ids in the order given. A step that runs after others waits; behind one
--       that has failed already it is to be cancelled, and the leader's chore does so.
-- called by: enqueue/flows: for the clients, in the caller's transaction. $1-$9 are those of job_enqueue_many; $10 workflow, $11 its
--            first new step, $12 for each new step a list in json: its name or null, and the list of its edges: parent, whether to run however that ends.
-- index: workflow_step_pkey; workflow_pkey.
-- locks: the new rows; the workflow's row, which the transaction has locked, or made.
with stated as materialized (
    select nth, value ->> 0 as name, value -> 1 as edges
    from json_array_elements($12::text::json) with ordinality as stated (value, nth)
), edge as materialized (
    select stated.nth, (each.value ->> 0)::int as parent, (each.value ->> 1)::boolean as run
    from stated cross join json_array_elements(stated.edges) as each (value)
), before as materialized (
    select step.step, step.name, step.job, step.state, step.passed, step.because
    from fastq.workflow_step as step
    where step.workflow = $10::bigint and step.step = any (array(select parent from edge where parent < $11::int))
), met as (
    select edge.nth, count(*) filter (where not coalesce(before.passed, false)) as unmet,
        min(before.step) filter (where before.passed and before.state <> 'completed' and not edge.run) as failed
    from edge left join before on before.step = edge.parent
    group by edge.nth
), given as materialized (
    select given.*, meta_text::jsonb as meta, coalesce(met.unmet, 0) as unmet, stated.name,
        case when met.failed is not null then (
            select jsonb_build_array(jsonb_build_array(before.job, coalesce(before.name, before.step::text), before.state)) || coalesce(before.because, '[]')
            from before where before.step = met.failed
        ) end as because
    from unnest(
        string_to_array($1::text, E'\x1e'),
        string_to_array($2::text, E'\x1e'),
        string_to_array($3::text, E'\x1e')::smallint[],
        string_to_array($4::text, E'\x1e')::smallint[],
        string_to_array($5::text, E'\x1e'),
        string_to_array($6::text, E'\x1e', ''),
        string_to_array($7::text, E'\x1e', '')::float8[],
        string_to_array($8::text, E'\x1e', '')::timestamptz[],
        string_to_array($9::text, E'\x1e', '')
    ) with ordinality as given (kind, queue, priority, max_attempts, args, tags, delay, at, meta_text, nth)
    join stated on stated.nth = given.nth
    left join met on met.nth = given.nth
), placed as materialized (
    select nth, kind, queue, priority, max_attempts, args, tags, meta, unmet, name, because, delay, at, step, waits,
        case when not waits and due > statement_timestamp() then due end as scheduled_at,
        case when waits then 'workflow' when due > statement_timestamp() then null else meta ->> 'gates'::text end as waits_for
    from (
        select *, $11::int + nth::int - 1 as step, unmet > 0 or because is not null as waits,
            coalesce(at, statement_timestamp() + make_interval(secs => delay)) as due
        from given
    ) as dated
), enqueued as (
    insert into fastq.job (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at, waits_for)
    select kind, queue, priority, max_attempts, args::json, string_to_array(tags, E'\x1f'),
        coalesce(meta, '{}') || jsonb_build_object('workflow', jsonb_build_array($10::bigint, step)),
        (case when scheduled_at is not null then 'scheduled' when waits_for is not null then 'waiting' else 'available' end)::fastq.state,
        case when scheduled_at is null and waits_for is null then nextval('fastq.job_seq') end,
        scheduled_at, waits_for
    from placed
    order by nth
    returning id
), stored as materialized (
    select placed.*, every.ids[placed.nth::int] as id
    from placed cross join (select array_agg(id order by id) as ids from enqueued) as every
), stepped as (
    insert into fastq.workflow_step (workflow, step, job, kind, unmet, fate, name, delay, at, because)
    select $10::bigint, step, id, kind, unmet, case when because is not null then 'cancel' end, name, case when waits then delay end,
        case when waits then at end, because
    from stored
), edged as (
    insert into fastq.workflow_edge (workflow, parent, child, run)
    select $10::bigint, parent, $11::int + nth::int - 1, run from edge
), counted as (
    update fastq.workflow set steps = steps + (select count(*) from placed)::int where id = $10::bigint
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from (select * from stored where not waits) as come where waits_for is not null group by queue, waits_for, priority
    returning id
)
select id from stored order by nth
