"""Connections for clients and for `job.transaction()`: some for each process or event loop, lent out one call at a time.

Here is also what decides which wake-ups the clients send on them. They run in the threads and event loops that call a client or
execute a job. A client's sessions own its pool; in a worker process, the blocks of `job.transaction()` own theirs.
"""
