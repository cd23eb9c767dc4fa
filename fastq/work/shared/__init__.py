"""What the threads of a worker process hand to each other: inbox and outbox, what is held, what a fork inherits."""
