"""Your deploy: the jobs that wait in a database, held against code that is to come. Plain functions of the caller's thread."""
