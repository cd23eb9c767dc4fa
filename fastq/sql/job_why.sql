-- what: what tells why a job is where it is: its row, living or finished; where it runs; the pauses that hold it, as JSON; whether its queue is worked, its kind
--       known, its domain and the schema led; how many jobs come before it; and the room at each gate at which it waits, as JSON:
--       name, key, weight, number, the weight that is admitted there, the job if it is a single one, the gate's sort and what it has more, and whether
--       that job has ended and holds the key. Of a discarded job, the gates of which it holds keys. Of a step that waits for others, or was cancelled because of
--       one, as JSON: workflow, step, unmet edges, fate, the first of the jobs that it waits for (id, step, state), and the steps that have cancelled it.
--       $1 id; counts stop at $2 jobs before it, $3 admitted ones.
-- called by: admin/why, enqueue/client, enqueue/client_async: why.
--       The last column is the process id of a session of the server that has the row locked.
-- index: job_pkey; job_archive_id (block ranges); process_pkey; of an available job the range of job_ready before it, of one that waits at
--        gates that of job_waiting. process and lease have as many rows as there are processes and leases; of gate_permit up to $3 rows are read;
--        workflow_step_pkey; workflow_edge_child, of a step up to $2 edges.
-- locks: none.
with mine as (
    select id, state, kind, kind || coalesce('@' || (meta ->> 'version'::text), '') as name, queue::text as queue, priority::smallint as priority, seq, attempt, max_attempts, scheduled_at, attempted_at,
        claim, cancel_requested, xmax as locker, waits_for,
        case when (meta -> 'parked'::text) -> 1 = to_jsonb(extract(epoch from scheduled_at)) then 'signal:' || ((meta -> 'parked'::text) ->> 0) end as parked_for,
        case when waits_for = 'workflow' then meta -> 'workflow'::text end as place, case when starts_with(waits_for, '[') then waits_for::jsonb end as at_gates, errors -> -1 ->> 'error' as error
    from fastq.job
    where id = $1::bigint
), entry as (
    select given.nth, given.part ->> 0 as sort, given.part ->> 1 as name, given.part -> 2 as key, (given.part ->> 3)::bigint as weight, (given.part ->> 4)::int as at_most, given.part -> 5 as more,
        case when starts_with(given.part ->> 0, 'order') then 1 end as highest  -- no operator can set more there
    from mine
    cross join jsonb_array_elements(mine.at_gates) with ordinality as given (part, nth)
), admitted as materialized (
    select sample.gates::jsonb as gates, count(*) as jobs, min(sample.job) as job
    from (select job, gates from fastq.gate_permit where exists (select from entry) limit $3::bigint) as sample
    group by sample.gates
), taken as (
    select entry.nth, sum(admitted.jobs * (given.part ->> 3)::bigint)::bigint as weight,
        case when sum(admitted.jobs) = 1 then min(admitted.job) end as job
    from admitted
    cross join jsonb_array_elements(admitted.gates) as given (part)
    join entry on entry.name = (given.part ->> 1)
      and (entry.key = (given.part -> 2) or entry.sort = 'fair')  -- the keys of a fair gate share its room
    group by entry.nth
), room as (
    select json_agg(json_build_array(
        entry.name, entry.key, entry.weight, least(coalesce(gate.at_most, entry.at_most), entry.highest), coalesce(taken.weight, 0), taken.job, entry.sort,
        case when entry.sort = 'rate' then jsonb_build_array(coalesce(to_jsonb(gate.per), entry.more -> 0), coalesce(to_jsonb(gate.burst), entry.more -> 1))
            else coalesce(entry.more, '[]') end,
        case when taken.job is not null then (select count(*) from fastq.job where job.id = taken.job) = 0 end
    ) order by entry.nth)::text as gates
    from entry
    left join fastq.gate on gate.name = entry.name
    left join taken on taken.nth = entry.nth
), stepped as (
    select json_build_array(step.workflow, coalesce(step.name, step.step::text), step.unmet, step.fate, coalesce(before.parents, '[]'), coalesce(step.because, '[]'))::text as told
    from mine
    join fastq.workflow_step as step on step.workflow = (mine.place ->> 0)::bigint and step.step = (mine.place ->> 1)::int
    cross join lateral (
        select json_agg(json_build_array(unmet.job, coalesce(unmet.name, unmet.step::text), unmet.state) order by unmet.step) as parents
        from (
            select parent.job, parent.name, parent.step, job.state::text as state
            from (
                select * from fastq.workflow_edge
                where workflow_edge.workflow = step.workflow and workflow_edge.child = step.step
                order by workflow_edge.parent
                limit $2::bigint
            ) as edge
            join fastq.workflow_step as parent on parent.workflow = edge.workflow and parent.step = edge.parent
            left join fastq.job on job.id = parent.job
            where not parent.passed
            order by parent.step
            limit 3
        ) as unmet
    ) as before
), paused as (
    select json_agg(json_build_array(
        found.sort, found.name, found.key, found.paused_at, found.paused_until, found.reason, found.paused_until <= clock_timestamp()
    ) order by found.sort desc, found.name desc, found.key)::text as pauses
    from (
        select 'queue' as sort, queue.name::text as name, '' as key, queue.paused_at, queue.paused_until, queue.pause_reason as reason
        from mine
        join fastq.queue on queue.name = any (array[mine.queue, '*'])
        where queue.paused_at is not null
        union all
        select pause.sort::text, pause.name::text, pause.key::text, pause.paused_at, pause.paused_until, pause.reason
        from mine
        join fastq.pause on case
            when pause.sort = 'kind' then pause.name = mine.kind
            else exists (
                select from entry
                where entry.name = pause.name and case when pause.key = '' then true else pause.key::jsonb = entry.key end
            ) end
    ) as found
)
select mine.id, mine.state, mine.kind, mine.queue, mine.attempt, mine.max_attempts, mine.scheduled_at, mine.attempted_at,
    null::timestamptz as finalized_at, mine.error, mine.cancel_requested, coalesce(mine.waits_for, mine.parked_for) as waits_for, null::text as cause,
    process.host, process.pid, coalesce(process.expires_at > clock_timestamp(), false) as beats,
    mine.scheduled_at <= clock_timestamp() as is_due,
    paused.pauses,
    worked.works, worked.knows, led.domain_led, led.schema_led,
    case when mine.seq is not null then (
        select count(*) from (
            select from fastq.job
            where job.queue = mine.queue and job.seq is not null and (job.priority, job.seq) < (mine.priority, mine.seq)
              and job.state = 'available'
            limit $2::bigint
        ) as before
    ) when mine.at_gates is not null then (
        select count(*) from (
            select from fastq.job
            where job.queue = mine.queue and job.waits_for = mine.waits_for and (job.priority, job.id) < (mine.priority, mine.id)
            limit $2::bigint
        ) as before
    ) end as before,
    room.gates, stepped.told as step,
    (select locks.pid from pg_catalog.pg_locks as locks
     where locks.locktype = 'transactionid' and locks.granted and locks.transactionid = mine.locker limit 1) as locked_by
from mine
cross join room
cross join paused
left join stepped on true
left join fastq.process on process.id = (mine.claim >> 32)
cross join lateral (
    select count(*) > 0 as works, count(*) filter (where other.kinds is null or mine.name = any (other.kinds)) > 0 as knows
    from fastq.process as other
    where other.expires_at > clock_timestamp() and mine.queue = any (string_to_array(other.queues, ','))
      and other.pid::text <> split_part(other.supervisor, ':', 2)  -- the number that a supervisor holds ready for its next child
      and coalesce(cardinality(other.kinds) <> 0, true)  -- an app of singletons alone works no jobs
) as worked
cross join lateral (
    select count(*) filter (where lease.name = 'schema') > 0 as schema_led,
        count(*) filter (where lease.name = 'leader:default' or (starts_with(lease.name, 'leader:') and mine.queue = any (lease.queues))) > 0
            as domain_led
    from fastq.lease
    where lease.holder <> '' and lease.expires_at > clock_timestamp()
) as led
union all
select id, state, kind, queue, attempt, max_attempts, null, attempted_at, finalized_at, errors -> -1 ->> 'error', false, null, meta ->> 'cause',
    null, null, null, null, null, null, null, null, null, null,
    (select gates::text from fastq.gate_permit where gate_permit.job = job_archive.id and job_archive.state = 'discarded'),
    case when meta ->> 'cause'::text = 'parent' then json_build_array(meta #> '{workflow,0}'::text[], coalesce((
        select name from fastq.workflow_step
        where workflow = (meta #>> '{workflow,0}'::text[])::bigint and step = (meta #>> '{workflow,1}'::text[])::int
    ), meta #>> '{workflow,1}'::text[]), 0, null, '[]'::json, coalesce(meta -> 'because'::text, '[]'))::text end,
    null
from fastq.job_archive
where id = $1::bigint and (select count(*) from fastq.job as living where living.id = $1::bigint) = 0
