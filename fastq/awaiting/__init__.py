"""Waits: how a program of yours learns that a job has ended, and what came of it."""
