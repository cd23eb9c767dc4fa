-- what: pauses a periodic job: ticks are dropped until it is resumed. Says since when it is paused; no row if there is none of this name.
-- called by: admin/periodic. $1 name, $2 channel (null: no hint).
-- index: periodic_pkey.
-- locks: the schedule's row.
with paused as (
    update fastq.periodic set paused_at = coalesce(paused_at, clock_timestamp()) where name = $1::text returning paused_at
)
select paused_at, case when $2::text is not null then pg_notify($2::text, '@periodic') end from paused
