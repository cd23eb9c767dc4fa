-- what: lets a paused periodic job go on, with its next tick after now; no row if it was not paused, or its schedule has changed.
-- called by: admin/periodic. $1 name, $2 schedule and $3 time zone that the next tick was computed with, $4 next tick. $5 channel (null: no hint).
-- index: periodic_pkey.
-- locks: the schedule's row.
with resumed as (
    update fastq.periodic set paused_at = null, next_tick = $4::timestamptz
    where name = $1::text and paused_at is not null and schedule = $2::text and tz = $3::text
    returning name
)
select name, case when $5::text is not null then pg_notify($5::text, '@periodic') end from resumed
