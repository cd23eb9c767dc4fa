"""Ask the search for each of its words, alone and in the pairs that are hard: how long a page takes, and how far it came."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from bench.scale import filling
from bench.scale.ground import Ground, session
from fastq import admin
from fastq.admin import search
from fastq.admin.search.job_filter import FIELDS, WORDS

if TYPE_CHECKING:
    from fastq.config import Config

PATIENCE = 2.0
"""Seconds in which a page is to come."""


class Page(NamedTuple):
    """The first page of a filter, and the page on which the search came to an end, if it was followed."""

    words: str
    seconds: float
    found: int
    looked: int
    until: str
    pages: int
    longest: float


def filters(ground: Ground, number: int, key: str) -> list[str]:
    """Return the filters: each word alone, then pairs of which one is rare or never fits."""
    newest = ground.newest_finished
    alone = {
        "state": ["completed", "discarded", "cancelled", "available", "running", "scheduled", "retryable", "waiting"],
        "kind": ["send_mail", "clean_feed", "needle", "none"],
        "queue": ["default", "needles", "none"],
        "tag": ["team-3", "needle", "none"],
        "error": ["refused", "haystack", "none"],
        "id": [str(number), f"{newest - 100_000}..{newest}", ">0"],
        "priority": ["4", ">2"],
        "attempt": ["77", ">1"],
        "since": ["1h", "7d"],
        "until": ["1h", "7d"],
        "created-since": ["1h"],
        "created-until": ["7d"],
        "due-since": ["1h"],
        "due-until": ["+2d"],
        "ended-since": ["1h"],
        "ended-until": ["7d"],
        "workflow": ["7"],
        "unique": [key[:8]],
        "gate": ["mail-api", "none"],
    }
    paths = ["args.account.id:77", "args.needle:42", "args.none:1", "meta.cause:failed", "meta.needle:yes", "meta.none:1"]
    pairs = [
        "kind:needle since:7d", "kind:none since:7d", "error:none state:discarded", "error:haystack state:cancelled",
        "tag:none kind:send_mail", "args.none:1 state:discarded", "args.account.id:77 kind:clean_feed", "meta.none:1 since:1d",
        "state:running kind:none", "state:scheduled kind:none", "queue:needles until:1d", "-kind:send_mail -state:completed",
        "error:refused error:none", "priority:4 attempt:77", "state:waiting gate:none", "kind:needle args.needle:42 since:30d",
    ]  # fmt: skip
    missing = set(WORDS) - set(alone) - {f"{name}.PATH" for name in FIELDS}
    assert not missing, f"words without a question: {missing}"
    return [f"{word}:{value}" for word, values in alone.items() for value in values] + paths + pairs


def measure(ground: Ground, config: Config, follow: str = "") -> list[Page]:
    """Ask for the first page of each filter; with `follow` found in it, also for those behind it."""
    connection = admin.connect(config, config.database_url)
    number = filling.needle_id(ground)
    with_key = session(config)
    [(key,)] = with_key.execute("select encode(key, 'hex') from fastq.unique_key order by key limit 1")
    with_key.close()
    rows = []
    for words in filters(ground, number, key):
        row = first_page(connection, words, follow=bool(follow and re.search(follow, words)))
        rows.append(row)
        slow = "  SLOW" if row.longest > PATIENCE + 0.3 else ""
        more = f", {row.pages} pages to the end, the longest {row.longest:.2f} s" if row.pages > 1 else ""
        print(
            f"  {row.seconds:5.2f} s, {row.found:2} found, looked at {row.looked:9,} {row.until:24} {words}{more}{slow}",
            flush=True,
        )
    connection.close()
    return rows


def first_page(connection: object, words: str, *, follow: bool) -> Page:
    """Ask for the first page of a filter, and for the next ones if they are wanted."""
    began = time.monotonic()
    page = search.list_jobs(connection, words)  # type: ignore[arg-type]
    seconds = longest = time.monotonic() - began
    until = f"back to {page.looked_until:%m-%d %H:%M}" if page.looked_until else "whole" if page.after is None else "full"
    found, pages, looked = len(page), 1, page.looked
    while follow and page.after is not None and pages < 500:
        began = time.monotonic()
        page = search.list_jobs(connection, words, after=page.after)  # type: ignore[arg-type]
        longest = max(longest, time.monotonic() - began)
        found, pages = found + len(page), pages + 1
    return Page(words, seconds, found, looked, until, pages, longest)
