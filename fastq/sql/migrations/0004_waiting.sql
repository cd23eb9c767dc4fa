-- 0004 waiting: jobs that wait for something other than a time, and the kinds that each process works.
-- Locks: job, exclusively, while it is read from end to end once for the new index, which is empty at first; process,
-- exclusively, for
--        milliseconds; the new value of the type locks no table.   Time: about a quarter of a second per million living jobs.

-- A job that waits for something that is no time has neither a seq nor a scheduled_at: no claim, no promotion and no look for
-- jobs of dead processes sees it. The value cannot be used before this transaction has ended, and no index names a state anyway.
alter type fastq.state add value 'waiting' after 'retryable';

-- What it waits for; null unless waiting. 'worker:KIND': for a process that works its queue and has a worker for its kind.
alter table fastq.job add column waits_for text collate "C";

-- In the order in which those are claimed that wait for a worker. It does not name the column kind: each claim would have to see
-- whether that has changed, behind a text in the row, which cost 3 % of it (measured, docs/adr/0017). A null is seen at once.
create index job_waiting on fastq.job (queue, waits_for, priority, id) where waits_for is not null;

-- The kinds that a process has workers for, written when its row is made. Null: its program is older than this column.
alter table fastq.process add column kinds text[];
