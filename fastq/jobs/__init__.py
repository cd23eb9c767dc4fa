"""A job: its spec, its outcomes, schedules, retries, and the registry of workers. Plain values, no I/O."""
