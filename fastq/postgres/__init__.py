"""The door to Postgres, in any process: sessions, pool, hints, errors; and a server of our own that commands and tests start."""
