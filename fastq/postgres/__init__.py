"""The door to Postgres: sessions, the clients' pool, the meaning of its errors, hints, a server of our own for a first run."""
