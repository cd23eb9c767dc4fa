"""One term of a lease: the interface of a chore, and how a term runs its chores, fenced."""
