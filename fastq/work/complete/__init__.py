"""The completer's thread writes the outcomes of jobs, a batch at a time.

At the end of the process its main thread hands back the jobs that never started, or that do not end (hand_back.py).
"""
