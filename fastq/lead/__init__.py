"""What a leader does while it leads: which leases it stands for, and which chores belong to each."""
