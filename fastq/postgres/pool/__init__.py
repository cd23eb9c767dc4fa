"""A client's own connections: some for each process or event loop, made when they are needed, lent out one call at a time.

They run in the threads and event loops that call a client; the client's sessions own a pool.
"""
