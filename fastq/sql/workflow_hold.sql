-- what: locks the workflows of the first $5 events with ids above $6, but for the workflows in $4. Answers with how many events these
--       are, the highest of their ids, the locked workflows, those that are no more, and those that somebody else has locked.
-- called by: lead/workflow/steward: at the beginning of a transaction of its own, which reads edges after it. $1-$3 fence.
-- index: lease_pkey; workflow_event_pkey, from $6 on; workflow_pkey.
-- locks: the lease's row, for key share; the workflows' rows, for no key update; locked ones are skipped, and tried again.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), heard as materialized (
    select id, workflow from fastq.workflow_event
    where id > $6::bigint and exists (select from held) and workflow <> all ($4::bigint[])
    order by id
    limit $5::bigint
), wanted as materialized (
    select heard.workflow, workflow.id
    from (select workflow from heard group by workflow) as heard
    left join fastq.workflow on workflow.id = heard.workflow
), locked as materialized (
    select workflow.id from fastq.workflow
    where id = any (array(select id from wanted where id is not null))
    order by id
    for no key update skip locked
)
select (select count(*) from held), (select count(*) from heard), coalesce((select max(id) from heard), 0),
    (select coalesce(array_agg(id), '{}') from locked),
    (select coalesce(array_agg(workflow), '{}') from wanted where id is null),
    (select coalesce(array_agg(id), '{}') from wanted where id is not null and not exists (select from locked where locked.id = wanted.id))
