"""The memory that the processes of a host share: the things that they and their supervisor know of each other. Numbers alone."""
