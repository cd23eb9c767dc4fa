"""One term of a lease, in threads of the supervisor that holds it: the form of a chore, and how a term runs its chores, fenced.

Commands and the registrar's thread ask domains.py, too.
"""
