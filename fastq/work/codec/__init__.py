"""From a claim's blobs to jobs, and from completions to blobs: the C core and its Python twin behind one door.

Run by the producer's thread of a worker process and by its completer's.
"""
