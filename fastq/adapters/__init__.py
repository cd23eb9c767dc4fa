"""Callers' connections: run a statement on a connection that the caller has open: psycopg, SQLAlchemy, Django or asyncpg."""
