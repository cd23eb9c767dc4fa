"""The chore that works through the operations of operators: changes of many jobs, a chunk at a time."""
