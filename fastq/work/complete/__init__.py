"""The completer's thread: write what became of the jobs, a batch at a time; hand back what never started."""
