-- what: has commits of this session waited for where the role's or the database's default is not to: what the database has confirmed, it
--       must not forget in a crash. Another value stays: whoever waits for a standby, or for the own disk alone, has chosen so.
-- called by: postgres/db: at the beginning of each session that is pinned.
-- index: none.
-- locks: none.
select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'
