"""The args of a job, its options and its `meta`: how they are declared, become JSON and are read back. Plain values, no I/O.

Declarations are made while a program is imported, and only read afterwards. The functions run in the threads that import an
application, in those that enqueue, and in those of a worker process and of the leader that read a job.
"""
