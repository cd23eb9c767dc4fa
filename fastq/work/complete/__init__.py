"""The completer's thread: write the outcomes of jobs, a batch at a time; hand back jobs that never started."""
