"""The chore that gives back the jobs of processes that are gone with their host or supervisor."""
