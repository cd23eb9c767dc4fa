"""The memory that the processes of a host share: what their supervisor and their producers know of each other. Numbers alone."""
