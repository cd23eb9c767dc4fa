"""Your program: the clients, their checks before the first statement, and when they wake workers."""
