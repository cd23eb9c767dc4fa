"""The work of a leader: the leases that it stands for, and the chores that belong to each."""
