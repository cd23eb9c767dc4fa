"""Jobs in processes of their own: a helper of the worker process forks one for each job, and ends it for certain."""
