-- what: the kinds of the living processes that work one of the queues $1, by queue and host. Those of a program that announces no kinds, or of
--       an app without workers, do not count.
-- called by: cli/terminal/shared_queues: when a supervisor starts.
-- index: none: the table has as many rows as there are worker processes.
-- locks: none.
select distinct worked.queue, process.host, process.kinds
from fastq.process
cross join lateral unnest(string_to_array(process.queues, ',')) as worked (queue)
where process.expires_at > clock_timestamp() and cardinality(process.kinds) > 0 and worked.queue = any ($1::text[])
order by worked.queue, process.host
