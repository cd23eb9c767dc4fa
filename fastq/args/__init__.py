"""The args of a job, its options and its `meta`: how they are declared, become JSON and are read back. Plain values, no I/O."""
