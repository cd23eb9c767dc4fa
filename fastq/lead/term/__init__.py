"""One term of a lease, in threads of the supervisor that holds it: what a chore is, and how a term runs its chores, fenced."""
