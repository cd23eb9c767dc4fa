-- what: looks at $5 leases after the one of name $4, and deletes those of users, singletons and domains, with their chores'
--       notes, that nobody has held for $6 seconds. A release leaves no time behind: a lease that is found free for the first
--       time is stamped with the present time. A lease with a term less far behind the clock stays: when its row is made anew,
--       the clock alone makes the new term larger. Answers with the last name, the number of leases looked at, and the number
--       deleted.
-- called by: lead/chores/forget: it walks through the table so. $1-$3 fence.
-- index: lease_pkey; chore_pkey.
-- locks: the schema's lease, for key share; the rows, for update, when they are looked at once more: a session that takes a lease
--        has its row locked, or finds it locked and tries again; locked ones are skipped.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), bound as materialized (
    select clock_timestamp() - make_interval(secs => $6::float8) as at
), looked as materialized (
    select name from fastq.lease
    where exists (select from held) and name > $4::text
    order by name
    limit $5::bigint
), free as materialized (
    select lease.name, isfinite(lease.expires_at) as stamped
    from fastq.lease join looked on looked.name = lease.name cross join bound
    where split_part(lease.name, ':', 1) = any ('{user,singleton,leader}'::text[])
      and ((lease.holder = '' and lease.expires_at = '-infinity')
        or (isfinite(lease.expires_at) and lease.expires_at < bound.at and lease.term < (extract(epoch from bound.at) * 1e6)::bigint))
    for update of lease skip locked
), stamped as (
    update fastq.lease set expires_at = clock_timestamp() from free where lease.name = free.name and not free.stamped
), gone as (
    delete from fastq.lease using free where lease.name = free.name and free.stamped
    returning lease.name
), chores as (
    delete from fastq.chore using gone where chore.lease = gone.name
)
select (select count(*) from held), (select max(name) from looked), (select count(*) from looked), (select count(*) from gone)
