"""A job: its spec, its outcomes, schedules, retries, how long it is kept, and the registry of workers. Plain values, no I/O.

Declarations are made by the thread that imports the application, and read by all; any other value belongs to the thread that has
it.
"""
