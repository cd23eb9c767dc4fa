"""What stands around and in place of a worker's `work`, and around an enqueue: hooks, handlers, the current job, functions."""
