"""One term of a lease: what a chore is, and how a term runs its chores, fenced."""
