-- what: the statistics since $2, or of the last $1 seconds, by outcome and by $4 ('queue', 'kind', or 'all' in one): for each $3 ('minute',
--       'hour', 'day'), or for the whole time ('whole'); of queue $5 and kind $6, null: of each. Without $7 the histograms are left out, which takes a
--       quarter of the time. Times begin with a minute; the last
--       column is the length of a span in seconds, as far as it has come.
-- called by: admin/statistics/asked: for people.
-- index: stat_at.
-- locks: none.
with since as materialized (
    select date_trunc('minute', coalesce($2::text::timestamptz, statement_timestamp() - ($1::float8 * interval '1 second')), 'UTC') as at
), found as materialized (
    select case when $3::text = 'whole' then since.at else date_trunc($3::text, stat.at, 'UTC') end as at,
        case when $4::text = 'queue' then stat.queue when $4::text = 'kind' then stat.kind else '' end as name,
        stat.outcome, stat.grain, stat.jobs, stat.runs, stat.run_seconds, stat.waits, stat.wait_seconds, stat.bins, stat.counts
    from since
    join fastq.stat on stat.grain = any ('{0,1,2,3}'::smallint[]) and stat.at >= since.at
    where ($5::text is null or stat.queue = $5::text) and ($6::text is null or stat.kind = $6::text)
), spread as (
    select at, name, outcome, array_agg(bin order by bin) as bins, array_agg(count order by bin) as counts
    from (
        select at, name, outcome, pair.bin, sum(pair.count)::bigint as count
        from found
        cross join lateral unnest(found.bins, found.counts) as pair (bin, count)
        where $7::boolean
        group by at, name, outcome, pair.bin
    ) as summed
    group by at, name, outcome
), total as (
    select at, name, outcome, sum(jobs)::bigint as jobs, sum(runs)::bigint as runs, sum(run_seconds) as run_seconds,
        sum(waits)::bigint as waits, sum(wait_seconds) as wait_seconds,
        case when $3::text = 'whole' then interval '100 years' else greatest(
            case when $3::text = 'minute' then interval '1 minute' when $3::text = 'hour' then interval '1 hour' else interval '1 day' end,
            case when max(grain) < 2 then interval '1 minute' when max(grain) = 2 then interval '1 hour' else interval '1 day' end
        ) end as span
    from found
    group by at, name, outcome
)
select total.at, total.name, total.outcome, total.jobs, total.runs, total.run_seconds, total.waits, total.wait_seconds,
    coalesce(spread.bins, '{}') as bins, coalesce(spread.counts, '{}') as counts,
    extract(epoch from (least(total.at + total.span, statement_timestamp()) - total.at))::float8 as seconds
from total
left join spread on spread.at = total.at and spread.name = total.name and spread.outcome = total.outcome
order by total.at, total.name
