"""A host, in the threads of its supervisor: worker processes and how they are forked, their sign of life, the only LISTEN."""
