"""What a job is: its spec, its outcomes, schedules, retries, and the registry of workers. Plain values, no I/O."""
