"""A worker process: put together, watched over and taken down here; its threads have rooms of their own."""
