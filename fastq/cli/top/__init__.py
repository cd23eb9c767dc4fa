"""`fastq top`: queues, running jobs, jobs, failures and processes of a schema, live in a terminal.

The values are read by one thread (watcher.py, figures.py), the views are pure functions of them (panes.py, onejob.py,
composing.py), and the main thread has the keys and the screen (live.py, pressing.py, display.py).
"""
