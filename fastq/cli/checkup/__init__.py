"""Commands that say whether all is well: with the database and the settings, with the processes of a host.

Each runs in the main thread of its program.
"""
