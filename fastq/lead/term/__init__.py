"""One term of a lease, in threads of the supervisor that holds it: the form of a chore, and how it is run and writes, fenced.

Commands and the registrar's thread ask domains.py, too.
"""
