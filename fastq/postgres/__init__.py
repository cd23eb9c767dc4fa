"""The door to Postgres, in any process: sessions, pool, hints, errors; and a server of our own that commands and tests start.

A session belongs to the thread that has opened it, or to the call that a pool has lent it to.
"""
