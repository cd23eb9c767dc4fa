-- what: the ends of the current snapshot: no transaction below the first is still writing; none at or above the second had begun.
-- called by: work/cursor/low_water: to know when all transactions that wrote at a moment have ended.
-- index: none.
-- locks: none.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint
