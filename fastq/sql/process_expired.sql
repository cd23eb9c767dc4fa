-- what: the processes that have given no sign of life for their time to live; in how many seconds the next one would be due
--       (null: there is none); and three signs of an outage: the server's clock, when the server was started (both in seconds
--       since 1970), and whether the newest beat of the leader's own supervisor ($1) is older than half of the time to live ($2):
--       false if it has none.
-- called by: lead/rescue/rescue: to know whether the look at the running jobs is worth it, and when to ask again.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select coalesce(array_agg(process.id) filter (where process.expires_at < clock.now), '{}'),
    extract(epoch from min(process.expires_at) filter (where process.expires_at >= clock.now) - clock.now)::float8,
    extract(epoch from clock.now)::float8,
    extract(epoch from pg_postmaster_start_time())::float8,
    coalesce(max(process.expires_at) filter (where process.supervisor = $1::text)
        < (clock.now + make_interval(secs => $2::float8 / 2)), false)
from (select clock_timestamp() as now) as clock
left join fastq.process on true
group by clock.now
