"""Statistics: how durations are sorted into bins, and read out of them; pure functions, for worker processes and for clients."""
