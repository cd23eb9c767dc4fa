-- what: takes the next tick from periodic jobs that have enqueued a tick of the future: the server's clock was set back, and they
--       would be silent until it is there again. The leader computes the next tick anew, from now on; ticks that came already
--       have their rows, and do not come again. Answers with whether the term holds, and the names.
-- called by: lead/chores/periodic. $1-$3 fence, $4 queues (null or empty: all).
-- index: none: the table has as many rows as there are periodic jobs; lease_pkey.
-- locks: the schedules' rows; a locked one is skipped. The lease's row, for key share.
with held as (
    select from fastq.lease
    where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
    for key share
), rewound as (
    update fastq.periodic set next_tick = null
    where name in (
        select name from fastq.periodic
        where exists (select from held) and paused_at is null and last_tick > clock_timestamp() and next_tick > last_tick
            and (coalesce(cardinality($4::text[]), 0) = 0 or queue = any ($4::text[]))
        for no key update skip locked
    )
    returning name
)
select (select count(*) from held), array(select name from rewound)
