"""The door to Postgres: sessions, the clients' pool, what its errors mean, hints, a server of our own for a first run."""
