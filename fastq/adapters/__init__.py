"""Callers' connections: run a statement on a connection that the caller has open: psycopg, SQLAlchemy, Django or asyncpg.

All of it runs in the thread or event loop of the caller, who owns the connection; nothing is kept here.
"""
