-- what: the ids of the jobs that a process runs according to the table, within a range of each priority of a queue, among the
--       first $13 rows there that are available or running. Also how many rows it looked at, the priority and the seq of the last
--       one, and how many us that took, without the wait for a lock on the table. Answers in blobs, like a claim.
--       It finds nothing while another process has the same number: the numbers went back (a restore, say), and our process is to
--       leave.
-- called by: work/claim/forgotten: on a new connection and now and then, until it looked at less than $13. $1 process, $2 its
--            pid, $3 its host, $4 queue, $5-$8 place in priority 1-4 (exclusive), $9-$12 upper end of seq by priority
--            (inclusive), $13 limit.
-- index: job_ready, one range per priority; process_pkey.
-- locks: none.
with began as materialized (
    select clock_timestamp() as at
), looked as materialized (
    select pick.*
    from began
    cross join (values (1::smallint, $5::bigint, $9::bigint), (2, $6::bigint, $10::bigint), (3, $7::bigint, $11::bigint),
        (4, $8::bigint, $12::bigint)) as lane (priority, after, upto)
    cross join lateral (
        select job.id, job.priority, job.seq, job.state, job.claim
        from fastq.job
        where job.queue = $4::text and job.priority = lane.priority and job.seq > lane.after and job.seq <= lane.upto
        order by job.seq
        limit $13::bigint
    ) as pick
    limit $13::bigint
), last as (
    select priority, seq from looked order by priority desc, seq desc limit 1
)
select
    (select string_agg(int8send(id), '') from looked
     where state = 'running' and claim >> 32 = $1::bigint
       and not exists (select from fastq.process where process.id = $1::bigint and (process.pid <> $2::bigint or process.host <> $3::text))),
    (select int8send(count(*)) from looked),
    (select int8send(priority) from last),
    (select int8send(seq) from last),
    (select int8send((extract(epoch from clock_timestamp() - began.at) * 1000000)::bigint) from began)
