-- 0018 scaling: two numbers about a queue for autoscalers, as functions that a role may call which has no other right.
-- Locks: none that anybody could wait for; everything is new.   Time: milliseconds.
--
-- They run with the rights of their owner, so their search path is their own, and so are the plans: the indexes are read whatever the
-- statistics say. Each stops counting at a number, so a backlog of millions costs no more than one of ten thousand.

-- The jobs of a queue that run or could run now, 10,000 at most: available ones unless the queue is paused, running ones, and those
-- whose time has come.
create function fastq.backlog(queue text) returns bigint
language sql stable parallel safe security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off
as $$
    select least(10000, (
        select count(*)
        from (select from fastq.job where job.queue = $1 and seq is not null and (state = 'running' or not held.paused) limit 10000) as sample
    ) + (
        select count(*)
        from (
            select from fastq.job
            where job.queue = $1 and scheduled_at <= statement_timestamp() and not held.paused
            limit 10000
        ) as sample
    ))
    from (
        select exists (select from fastq.queue where queue.name = any (array[$1, '*']) and paused_at is not null) as paused
    ) as held
$$;

-- The seconds for which the first job of a queue has waited that could run now; 0 where none waits, and while the queue is paused. A job
-- whose time has come and that is not available yet counts from that time. Of available jobs it is not stored since when they are: one
-- that was never tried counts from its enqueue, unless a job before it in the line was enqueued later, so that it was delayed. The first
-- hundred of each priority are looked at.
create function fastq.lag(queue text) returns double precision
language sql stable parallel safe security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off
as $$
    select coalesce(greatest(0, extract(epoch from clock_timestamp() - least(
        (select scheduled_at from fastq.job where job.queue = $1 and scheduled_at <= statement_timestamp() order by scheduled_at limit 1),
        (
            select min(sample.created_at)
            from generate_series(1, 4) as of_priority (priority)
            cross join lateral (
                select created_at, attempt, id >= max(id) over (order by seq) as in_order
                from (
                    select id, seq, attempt, created_at from fastq.job
                    where job.queue = $1 and job.priority = of_priority.priority and seq is not null and state = 'available'
                    order by seq
                    limit 100
                ) as first
            ) as sample
            where sample.attempt = 0 and sample.in_order
        )
    ))), 0)::double precision
    where not exists (select from fastq.queue where queue.name = any (array[$1, '*']) and paused_at is not null)
    union all
    select 0
    limit 1
$$;

revoke execute on function fastq.backlog(text), fastq.lag(text) from public;
