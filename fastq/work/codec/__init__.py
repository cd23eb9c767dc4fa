"""From a claim's blobs to jobs, and from completions to blobs: the C core and its Python twin behind one door."""
