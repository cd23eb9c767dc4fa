-- what: the queues that a domain maintains: those that its living processes work, and the leader's own; notes them in its lease.
-- called by: lead/term/domains: the leader of a named domain. $1-$3 fence, $4 domain, $5 the leader's own queues.
-- index: lease_pkey; process has as many rows as there are worker processes.
-- locks: the lease's row, for key share; it is updated only when the queues have changed.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), worked as (
    select array_agg(distinct name order by name) as queues
    from (
        select unnest(string_to_array(process.queues, ',')) as name from fastq.process
        where process.domain = $4::text and process.expires_at > clock_timestamp()
        union
        select unnest($5::text[])
    ) as queue
), noted as (
    update fastq.lease
    set queues = worked.queues
    from worked
    where exists (select from held) and lease.name = $1::text and (lease.queues = worked.queues) is not true
    returning 1
)
select (select count(*) from held), worked.queues, (select count(*) from noted) from worked
