"""A worker process, by its main thread: put together, watched over and taken down here.

The threads that work jobs have rooms of their own. The threads of singletons are started and run here (singletons.py).
"""
