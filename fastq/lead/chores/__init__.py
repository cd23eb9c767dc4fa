"""The chores, one to a file. Each is data and a few statements; the term runs them."""
