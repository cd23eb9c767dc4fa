"""The parts that all commands share: options and settings, the database, and how things are printed.

All of it runs in the main thread of the command.
"""
