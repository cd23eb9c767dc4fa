"""The work of a leader, in threads of the supervisor that is elected: the leases, and the chores that belong to each."""
