"""Your program: the clients, their checks before the first statement, and when they wake workers.

All of it runs in the thread or event loop that calls a client, in a command and a worker process as well.
"""
