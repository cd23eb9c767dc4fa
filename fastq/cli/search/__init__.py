"""The part of `fastq jobs` that finds jobs by the words of a filter: lists, pages and counts."""
