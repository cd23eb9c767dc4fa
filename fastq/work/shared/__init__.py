"""The objects that the threads of a worker process share, one module for each; and forks.py, which guards signals and forks.

Jobs on their way: lanes, inboxes and the outbox; the account of held jobs and of the bytes of their args. Guards: the notice that
the process was frozen, exceptions thrown into threads, whole lines of output, Django's connections. Each module names the threads
that write its objects and those that read them.
"""
