"""The args of a job: how a kind declares its args, and how they are written as JSON and read back. Plain values, no I/O."""
