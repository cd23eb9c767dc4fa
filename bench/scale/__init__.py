"""Ask how the pages, the search and the commands of an operator behave with millions of jobs."""
