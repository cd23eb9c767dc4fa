"""Hooks that come with fastq: for tools that watch programs, OpenTelemetry and Sentry, and a session of SQLAlchemy's per job."""
