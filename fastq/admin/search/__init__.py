"""Find jobs, living and finished, by a filter: its words, pages that go on by a cursor, counts with an end."""

from fastq.admin.search.finding import complete_words, count_jobs, list_jobs
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.pages import JobCount, JobPage

__all__ = ["JobCount", "JobFilter", "JobPage", "complete_words", "count_jobs", "list_jobs"]
