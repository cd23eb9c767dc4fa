"""The chores, one to a file. Each is data and a few statements, run by the term in a thread of the supervisor that leads."""
