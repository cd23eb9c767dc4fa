-- what: how many discarded jobs of each kind (of $1; null: of each) retention has removed.
-- called by: admin/dead/letters, admin/dead/letters_async.
-- index: none: it is read from end to end, a row for each kind, cause and day.
-- locks: none.
select kind, sum(jobs)::bigint
from fastq.dead_count
where $1::text is null or kind = $1::text
group by kind
order by kind
