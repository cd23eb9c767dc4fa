"""The chores of a leader, one to a file: each is data and a few statements.

The term runs them in threads of the supervisor that leads.
"""
