-- what: takes up to $5 events with ids above $4 from the log; answers with how many, the highest id, and the events as JSON:
--       queue, gates, jobs, priority, job, and of an event about rates the seconds for which nothing may start.
--       Its commit does not wait for the disk: a crash brings the events back and ends the session that has read them.
-- called by: lead/gate/gate_log. $1-$3 fence.
-- index: lease_pkey; gate_event_pkey, from $4 on.
-- locks: the lease's row, for key share; the events.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), read as (
    delete from fastq.gate_event
    where id = any (array(
        select id from fastq.gate_event where id > $4::bigint and exists (select from held) order by id limit $5::bigint
    ))
    returning id, queue, gates, jobs, priority, job, until
)
select (select count(*) from held), count(*), coalesce(max(id), 0),
    json_agg(json_build_array(queue, gates, jobs, priority, job, extract(epoch from until - clock_timestamp())::float8))::text,
    set_config('synchronous_commit', 'off', true)
from read
