"""How long the producer and the completer wait before they try Postgres again. Plain values."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between attempts to reach the database again: quick after a restart, patient in an outage."""
