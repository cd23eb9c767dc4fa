-- what: deletes a periodic job that no living process declares, and the rows of its ticks. Says how many of those; no row if it is declared,
--       or not there.
-- called by: admin/periodic. $1 name.
-- index: periodic_pkey; periodic_tick_pkey.
-- locks: the schedule's row and its ticks' rows. A leader that has the schedule locked is waited for; a new definition is not in its way.
with gone as (
    delete from fastq.periodic
    where name = $1::text and not exists (
        select from fastq.process cross join unnest(process.periodic) as part
        where process.expires_at > clock_timestamp() and split_part(part, '=', 1) = $1::text
    )
    returning name
), ticks as (
    delete from fastq.periodic_tick using gone where periodic_tick.name = gone.name returning periodic_tick.tick
)
select (select count(*) from ticks) from gone
