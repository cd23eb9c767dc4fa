"""Your program: the clients, what they check and write before the first statement, and when they wake workers."""
