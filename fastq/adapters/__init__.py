"""Callers' connections: run a statement on whatever the caller has open, psycopg, SQLAlchemy, Django or asyncpg."""
