"""The overview and the page of queues tell the last hour by the statistics of worker processes."""

from fastq.statistics.bins import OF_WAITS, bin_of
from tests.db.jobs import session
from tests.web.test_pages import read

TOLD = """insert into fastq.stat (grain, at, queue, kind, outcome, jobs, runs, run_seconds, waits, wait_seconds, bins, counts)
    values (0, date_trunc('minute', now() - make_interval(mins => $1)), $2, 'mail', $3, $4::int, $4::int, 1, $4::int, 1,
        array[$5, $6]::smallint[], array[$4::bigint, $4::bigint])"""


def count(url, ago, queue, outcome, jobs, run=0.2, wait=0.05):
    """Insert a row as a worker process does."""
    connection = session(url)
    connection.execute(TOLD, ago, queue, outcome, jobs, bin_of(run), OF_WAITS + bin_of(wait))
    connection.close()


def test_the_overview_tells_the_rate_the_failures_and_the_times_of_the_last_hour(browser, database):
    count(database, 2, "emails", "completed", 7_200)
    count(database, 3, "default", "retryable", 1)
    count(database, 180, "default", "completed", 999)

    page = browser("reader").get("/").text
    text = read(browser("reader"), "/").text

    assert "7,200 jobs ended, 2/s 1 attempt failed" in text
    assert "ms · " in text
    assert "by the minute, 7,200 at most" in text
    assert "all queues, the last 60 minutes: 7200 ended well, 1 failed attempt, 7200 in a minute at most" in page


def test_the_page_of_queues_has_a_row_of_the_last_hour_for_each_the_busiest_first(browser, database):
    count(database, 2, "a-quiet", "completed", 3)
    count(database, 2, "emails", "completed", 60, run=0.2, wait=0.05)
    count(database, 1, "emails", "discarded", 60, run=2.0, wait=0.5)

    text = read(browser("reader"), "/queues").text.partition("The last hour")[2]

    assert "emails 120 2/min 60 " in text
    assert text.index("emails 120") < text.index("a-quiet 3 3/h 0 ")


def test_without_statistics_both_pages_say_why(browser):
    for path in ("/", "/queues"):
        assert "No worker process has counted a job in this hour" in browser("reader").get(path).text, path


def test_a_minute_more_of_statistics_comes_to_a_page_that_is_open(browser, database, site):
    count(database, 1, "emails", "completed", 5)
    before = browser("reader").get("/queues").text
    count(database, 0, "emails", "completed", 5)
    site._desk.shared.forget()

    assert browser("reader").get("/queues").text.partition('id="hour"')[2] != before.partition('id="hour"')[2]
