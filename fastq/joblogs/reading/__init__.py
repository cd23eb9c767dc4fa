"""Job logs for those who read them: the log lines, and the methods of the clients that return and follow them."""
