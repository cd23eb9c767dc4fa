"""The settings that our sessions are pinned to, whatever the server's, the database's or the role's defaults say. Data alone.

What is changed for some of these defaults only is in sql/session_durable.sql. Where a pooler shares sessions nothing is pinned.
"""

PINNED_SETTINGS = {
    # What a role's or a database's defaults could break (isolation, limits meant for people, a hostile search path), but for
    # default_transaction_read_only: a database is told with it that it is not the one to write to, in a switchover say ...
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "search_path": "pg_catalog",
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    # ... and the plans: each statement has one right plan, by the index its header names, whatever the statistics of a
    # table that was empty a second ago say. Prepared statements then keep that plan.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

OPERATORS_SETTINGS = {"search_path": PINNED_SETTINGS["search_path"]}
"""What is pinned where people look and decide, who want the archive read by its block ranges and times in their own zone."""
