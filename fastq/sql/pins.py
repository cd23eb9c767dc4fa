"""The settings that our sessions are pinned to, against the defaults of the server, the database and the role. Data alone.

Read by the thread that opens a session (postgres/db.py), and by that of `fastq run` which looks for a pooler; never changed.
sql/session_durable.sql changes one more setting, for some defaults only. Where a pooler shares sessions nothing is pinned.
"""

PINNED_SETTINGS = {
    # Settings with which a role's or a database's defaults could break us (isolation, limits meant for people, a hostile search
    # path), but for default_transaction_read_only: in a switchover, say, it keeps writers away from a database ...
    "default_transaction_isolation": "read committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "search_path": "pg_catalog",
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    # ... and the plans: each statement has one right plan, by the index its header names, even if the statistics are of a
    # second ago, when the table was empty. Prepared statements then keep that plan.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

OPERATORS_SETTINGS = {"search_path": PINNED_SETTINGS["search_path"]}
"""The pins of an operator's sessions: there the archive is read by its block ranges, and times are in the user's zone."""
