"""A page is live: its stream sends it again when it has changed, and ten tabs cost as much as one."""

import asyncio
import time

import pytest
from starlette.testclient import TestClient

from fastq import Client, Config
from fastq.web import Viewer, dashboard
from fastq.web.live import following, source
from fastq.web.routing.view import View
from fastq.web.site import CONTENTS
from tests.db.jobs import session
from tests.helpers import wait_for
from tests.web.conftest import MailArgs, who


class Stream:
    """A browser's stream of a page, over raw ASGI."""

    def __init__(self, site, path, name="operator", query=b"", *, reads=True):
        self.events, self.status, self.headers = asyncio.Queue(), None, {}
        self._gone, self._reads = asyncio.Event(), reads
        headers = [(b"accept", b"text/event-stream"), (b"x-who", name.encode()), (b"host", b"testserver")]
        scope = {
            "type": "http", "method": "GET", "path": path, "root_path": "", "query_string": query, "headers": headers,
            "scheme": "http", "server": ("testserver", 80), "http_version": "1.1", "asgi": {"version": "3.0"},
        }  # fmt: skip
        self.task = asyncio.ensure_future(site(scope, self._receive, self._send))

    async def _receive(self):
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        elif message["body"]:
            self.events.put_nowait(message["body"].decode())
            if not self._reads:
                await asyncio.Event().wait()  # as a server does while the browser takes no bytes

    async def next(self):
        async with asyncio.timeout(40):
            while (text := await self.events.get()).startswith(":"):
                pass
        return text

    async def close(self):
        self._gone.set()
        await asyncio.wait_for(self.task, 10)


@pytest.fixture(autouse=True)
def _quick():
    """Have pages looked at more often than in life: these tests wait for it."""
    views = [view for view in CONTENTS if isinstance(view, View) and view.every is not None]
    before = [view.every for view in views]
    for view in views:
        object.__setattr__(view, "every", 0.2)
    yield
    for view, every in zip(views, before, strict=True):
        object.__setattr__(view, "every", every)


def made(database):
    return dashboard(Config(database_url=database), auth=who)


def test_a_stream_sends_the_page_when_it_begins_and_when_it_has_changed(database):
    async def follow():
        site = made(database)
        stream = Stream(site, "/jobs")
        first = await stream.next()
        async with asyncio.timeout(30):
            await asyncio.to_thread(enqueue, database)
            second = await stream.next()
        await stream.close()
        site.close()
        return stream, first, second

    stream, first, second = asyncio.run(follow())

    assert stream.status == 200
    assert stream.headers[b"content-type"].startswith(b"text/event-stream")
    assert b"default-src 'self'" in stream.headers[b"content-security-policy"]
    assert "There are no jobs" in first
    assert "welcome" in second
    assert "<html" not in first


def test_a_request_for_the_headers_alone_begins_no_stream(browser, site):
    answer = browser().head("/jobs", headers={"accept": "text/event-stream"})

    assert answer.headers["content-type"].startswith("text/html")


def enqueue(database):
    with Client(database) as client:
        return int(client.enqueue(MailArgs("ada")))


def test_ten_tabs_read_the_database_as_often_as_one_and_get_the_same(database, monkeypatch):
    async def follow(tabs):
        site = made(database)
        streams = [Stream(site, "/queues") for _ in range(tabs)]
        firsts = [await stream.next() for stream in streams]
        began = site._desk.shared.made
        await asyncio.to_thread(enqueue, database)
        seconds = [await stream.next() for stream in streams]
        read = site._desk.shared.made
        for stream in streams:
            await stream.close()
        site.close()
        return set(firsts), set(seconds), began, read

    one = asyncio.run(follow(1))
    ten = asyncio.run(follow(10))

    assert len(ten[0]) == len(ten[1]) == 1
    assert ten[2] == one[2] == 1
    assert ten[3] <= one[3] + 1, "a look more, should the first have come too early"


def test_the_connections_are_closed_when_nobody_has_looked_for_a_while(database, monkeypatch):
    monkeypatch.setattr(source, "RESTED", 0.2)
    job = enqueue(database)
    site = made(database)
    others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

    assert TestClient(site, headers={"x-who": "operator"}).get(f"/jobs/{job}").status_code == 200

    look = session(database)
    wait_for(lambda: look.execute(others) == [(0,)])
    assert TestClient(site, headers={"x-who": "operator"}).get(f"/jobs/{job}").status_code == 200
    wait_for(lambda: look.execute(others) == [(0,)])
    look.close()
    site.close()


def test_requests_that_come_at_once_share_one_reading(database):
    async def ask():
        site = made(database)
        loads = [
            site._desk.shared.content("page", lambda connection: time.sleep(0.2) or connection.backend_pid) for _ in range(20)
        ]
        pids = await asyncio.gather(*loads)
        site.close()
        return set(pids), site._desk.shared.made

    assert [len(part) if isinstance(part, set) else part for part in asyncio.run(ask())] == [1, 1]


def test_viewers_with_other_rights_have_streams_of_their_own(database):
    async def follow():
        site = made(database)
        streams = [Stream(site, "/queues", name) for name in ("reader", "operator")]
        texts = [await stream.next() for stream in streams]
        for stream in streams:
            await stream.close()
        site.close()
        return texts

    reader, operator = asyncio.run(follow())

    assert "/everything/pause" in operator
    assert "/everything/pause" not in reader


def test_a_stream_is_refused_as_its_page_is(database):
    async def follow():
        site = dashboard(Config(database_url=database), auth=lambda _: Viewer("rita", ["jobs.read"]))
        stream = Stream(site, "/queues")
        await stream.task
        site.close()
        return stream.status

    assert asyncio.run(follow()) == 403


def test_the_reader_of_a_stream_ends_with_its_last_listener(database):
    async def follow():
        site = made(database)
        one, other = Stream(site, "/jobs"), Stream(site, "/jobs")
        await one.next()
        await other.next()
        [channel] = site._desk.streams._channels.values()
        await one.close()
        alone = channel.task is not None and not channel.task.done()
        await other.close()
        left = dict(site._desk.streams._channels)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.cancelling()]
        site.close()
        return alone, left, tasks

    alone, left, tasks = asyncio.run(follow())

    assert alone
    assert left == {}
    assert tasks == []


def test_a_stream_ends_after_a_while_so_that_rights_are_looked_at_again(database, monkeypatch):
    monkeypatch.setattr(following, "LONGEST", 0.3)

    async def follow():
        site = made(database)
        stream = Stream(site, "/jobs")
        await asyncio.wait_for(stream.task, 30)
        site.close()
        return stream.events.qsize()

    assert asyncio.run(follow()) >= 1


def test_a_stream_whose_browser_reads_nothing_ends_too_and_gives_its_place_back(database, monkeypatch):
    monkeypatch.setattr(following, "SENDING", 0.1)

    async def follow():
        site = made(database)
        for longest in (0.2, 1.0, 5.0, 25.0):  # on a slow machine the first text may come after the end
            monkeypatch.setattr(following, "LONGEST", longest)
            stream = Stream(site, "/jobs", reads=False)
            await asyncio.wait_for(stream.task, 60)
            if stream.events.qsize():
                break
        assert stream.events.qsize()
        await asyncio.to_thread(wait_for, lambda: not site._desk.streams._channels)
        site.close()
        return stream.status

    assert asyncio.run(follow()) == 200


def test_there_are_only_so_many_streams(database, monkeypatch):
    monkeypatch.setattr(following, "MOST", 1)

    async def follow():
        site = made(database)
        one = Stream(site, "/jobs")
        await one.next()
        other = Stream(site, "/jobs")
        await other.task
        await one.close()
        site.close()
        return other.status

    assert asyncio.run(follow()) == 503


def test_only_so_many_contents_are_followed_at_once_however_many_addresses_a_viewer_thinks_of(database, monkeypatch):
    monkeypatch.setattr(following, "CONTENTS", 1)

    async def follow():
        site = made(database)
        one = Stream(site, "/jobs")
        await one.next()
        other = Stream(site, "/jobs", query=b"kind=mail")
        await other.task
        same = Stream(site, "/jobs")
        await same.next()
        await one.close()
        await same.close()
        later = Stream(site, "/jobs", query=b"kind=mail")
        await later.next()
        await later.close()
        site.close()
        return other.status, same.status, later.status

    assert asyncio.run(follow()) == (503, 200, 200)


def test_streams_that_come_all_at_once_are_counted_too(database, monkeypatch):
    monkeypatch.setattr(following, "CONTENTS", 2)

    async def follow():
        site = made(database)
        streams = [Stream(site, "/jobs", query=b"tag=%d" % number) for number in range(8)]
        firsts = [await stream.next() for stream in streams]
        for stream in streams:
            await stream.close()
        site.close()
        return firsts

    firsts = asyncio.run(follow())

    assert len([text for text in firsts if text.startswith("data:")]) == 2
    assert firsts.count("retry: 5000\n\n") == 6


def test_a_stream_tells_that_the_database_is_away_and_goes_on_when_it_is_back(database):
    async def follow():
        site = made(database)
        stream = Stream(site, "/queues")
        await stream.next()
        look = await asyncio.to_thread(session, database)
        look.execute("alter table fastq.queue rename to queue_away")
        away = await stream.next()
        look.execute("alter table fastq.queue_away rename to queue")
        back = await stream.next()
        look.close()
        await stream.close()
        site.close()
        return away, back

    away, back = asyncio.run(follow())

    assert "the database refused" in away
    assert "Nothing is paused" in back


def test_a_reading_whose_connection_was_ended_is_done_once_more(database):
    async def ask():
        site = made(database)
        pid = await site._desk.shared.content("first", lambda connection: connection.backend_pid)
        look = await asyncio.to_thread(session, database)
        look.execute("select pg_terminate_backend($1::int, 5000)", pid)
        look.close()
        again = await site._desk.shared.content("second", lambda connection: connection.ask("select pg_backend_pid()")[0][0])
        with pytest.raises(Exception, match=r"terminat|closed|lost"):
            await asyncio.wrap_future(
                site._desk.source.change(lambda connection: connection.ask("select pg_terminate_backend(pg_backend_pid())"))
            )
        site.close()
        return pid, again

    pid, again = asyncio.run(ask())

    assert pid != again
