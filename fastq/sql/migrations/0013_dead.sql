-- 0013 dead letters: the discarded jobs once more, in a small table, and the numbers of those that are no longer kept.
-- Locks: none but those of the new tables. job_archive is read once, and nothing waits for that.   Time: about a second per GB.
--
-- Why no index of the discarded rows of job_archive: each completion would go by it. With a partial index a completion takes 0.6 %
-- more instructions (docs/dead-letters.md has the figures); with this table it takes none.

-- A row for each discarded job that the archive has, with all that a replay needs: so neither a list nor a replay reads the archive.
-- The statements that discard a job write it, those that take a job out of the archive delete it.
create table fastq.dead (
    id           bigint not null,
    finalized_at timestamptz not null,
    replayed_by  bigint,                        -- the newest job that does it once more
    priority     smallint not null,
    max_attempts smallint not null,
    queue        text collate "C" not null,
    kind         text collate "C" not null,
    cause        text collate "C" not null,
    args         json not null,
    tags         text[],
    error        text not null,                 -- the last one, as much of it as tells causes apart
    meta         jsonb,
    constraint dead_pkey primary key (id)
);
create index dead_ended on fastq.dead (finalized_at, id);

insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
select id, finalized_at, priority, max_attempts, queue, kind, coalesce(meta ->> 'cause', 'failed'), args, tags,
    left(coalesce(errors -> -1 ->> 'error', ''), 1000), meta
from fastq.job_archive
where state = 'discarded'
on conflict do nothing;

-- Discarded jobs that retention has removed, by kind, cause and the day (UTC) on which they ended.
create table fastq.dead_count (
    kind  text collate "C" not null,
    cause text collate "C" not null,
    day   date not null,
    jobs  bigint not null,
    constraint dead_count_pkey primary key (kind, cause, day)
);
