-- what: takes a lease that is free, has run out or is missing, and begins a new term; says the term (null: it was not to be had),
--       the holder, when it expires and in how many seconds, and the holder's ttl.
-- called by: leases/lease: in autocommit. $1 name, $2 holder, $3 ttl in seconds, $4 queues or null, $5 an expires_at that the
--            caller has seen unchanged for as long as the holder's ttl (or null): a clock that was set back must not keep a dead
--            holder's lease alive.
-- index: lease_pkey.
-- locks: the lease's row; never waits for it: the session that has it locked holds the lease, is taking it, or runs a statement
--        of the last term.
with free as (
    select name, term from fastq.lease
    where name = $1::text and (holder = '' or expires_at < clock_timestamp() or expires_at = $5::text::timestamptz)
    for update skip locked
), taken as (
    -- The clock is a lower bound of the term, so that it grows although a restored or promoted server forgot some terms.
    update fastq.lease
    set holder = $2::text, term = greatest(free.term + 1, (extract(epoch from clock_timestamp()) * 1e6)::bigint),
        ttl = $3::float8, acquired_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => $3::float8),
        queues = $4::text[]
    from free
    where lease.name = free.name
    returning lease.term
), made as (
    insert into fastq.lease (name, holder, term, ttl, acquired_at, expires_at, queues)
    select $1::text, $2::text, (extract(epoch from clock_timestamp()) * 1e6)::bigint, $3::float8, clock_timestamp(),
        clock_timestamp() + make_interval(secs => $3::float8), $4::text[]
    where not exists (select from fastq.lease where name = $1::text)
    on conflict do nothing  -- of either key: a rival may have read the same microsecond
    returning term
)
select coalesce((select term from taken), (select term from made)), seen.holder, seen.expires_at::text,
    case when isfinite(seen.expires_at) then extract(epoch from seen.expires_at - clock_timestamp())::float8 end, seen.ttl
from (values (1)) as one (row)
left join fastq.lease as seen on seen.name = $1::text
