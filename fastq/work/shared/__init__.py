"""The objects that the threads of a worker process share, one module for each.

Jobs on their way: lanes, inboxes and the outbox; the account of held jobs and of the bytes of their args. Guards: the notice that
the process was frozen, exceptions thrown into threads, forks, whole lines of output, Django's connections.
"""
