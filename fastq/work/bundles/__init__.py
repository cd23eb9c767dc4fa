"""Bundles: the jobs of one call of `work_many`, as they gather in an inbox and as they are executed together."""
