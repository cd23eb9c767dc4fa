-- what: has commits of this session reach the disk even if synchronous_commit is off by default for the role or the database: a
--       crash must not lose a confirmed commit. Any other value stays: it was chosen, to wait for a standby or for the own disk
--       alone.
-- called by: postgres/db: at the beginning of each session that is pinned.
-- index: none.
-- locks: none.
select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'
