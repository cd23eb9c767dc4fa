"""The args of a job: how a kind declares its args, how they are written as JSON and read back, and what else stands with a job. Plain values, no I/O."""
