"""The objects that the threads of a worker process share: inbox and outbox, the account of held jobs, the guard of forks."""
