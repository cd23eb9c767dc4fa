"""The records of steps in the database, written by the jobs of a worker process; and the outcomes of a job that parks."""
