"""A host: the supervisor, its worker processes and their places, their sign of life, and the only LISTEN."""
