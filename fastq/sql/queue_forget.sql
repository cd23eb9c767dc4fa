-- what: deletes up to $5 rows of queues that say nothing: not paused, older than $4 seconds, no job in them, no living process that works
--       them; says how many. A pause that comes meanwhile keeps or makes its row.
-- called by: lead/chores/forget. $1-$3 fence.
-- index: job_ready, job_due and job_waiting, to see whether there are jobs; lease_pkey.
-- locks: the lease's row, for key share; the rows; locked ones are skipped.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), silent as (
    select name from fastq.queue
    where exists (select from held)
      and paused_at is null and created_at < (clock_timestamp() - make_interval(secs => $4::float8))
      and not exists (select from fastq.job where job.queue = queue.name and seq is not null)
      and not exists (select from fastq.job where job.queue = queue.name and scheduled_at is not null)
      and not exists (select from fastq.job where job.queue = queue.name and waits_for is not null)
      and not exists (
          select from fastq.process
          where queue.name = any (string_to_array(process.queues, ',')) and process.expires_at > clock_timestamp()
      )
    limit $5::bigint
    for update of queue skip locked
), gone as (
    delete from fastq.queue using silent where queue.name = silent.name and queue.paused_at is null
    returning 1
)
select (select count(*) from held), (select count(*) from gone)
