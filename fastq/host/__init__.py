"""A host, in its supervisor's threads: worker processes, their sign of life, the only LISTEN, a look at the other supervisors.

One module runs elsewhere: the fork server imports preload.py.
"""
