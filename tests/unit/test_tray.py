"""Trays and sheets: bounded, numbered, and nothing goes missing without a word, whatever is lost on the way."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fastq.subscribing.event_reading import DROPPED, Reading
from fastq.subscribing.tray import BYTES, EVENTS, Tray, encoded, encoded_each

NOW = datetime(2026, 11, 20, tzinfo=UTC)
EVENT = encoded("job.failed", 30, {"id": 1})


def row(sheet):
    """Return a sheet as event_read.sql answers with it."""
    return sheet.source, sheet.number, sheet.start_at, sheet.size, NOW, sheet.events


def told(reading, *sheets):
    """Return how many events were read, and the counts of those that were missing."""
    events = list(reading.events([row(sheet) for sheet in sheets]))
    missing = [event.fields["count"] for event in events if event.dropped]
    return len(events) - len(missing), missing


def test_the_first_sheet_is_there_without_an_event_and_says_that_somebody_hears():
    tray = Tray(7, "host:1:aa")

    sheet = tray.take()

    assert sheet == (7, "host:1:aa", 0, 0, 0, "[]")
    assert tray.take() is None
    tray.put(EVENT)
    assert tray.take()[2:5] == (1, 0, 1)


def test_a_tray_keeps_so_many_events_and_counts_the_others():
    tray = Tray(1, "host:1:aa")
    for _ in range(EVENTS + 50):
        tray.put(EVENT)
    tray.miss(25)
    full = tray.take()

    assert (full.size, tray.due) == (EVENTS, True)
    assert told(Reading(), full, tray.take()) == (EVENTS, [75])
    assert not tray.due


def test_a_tray_keeps_so_many_bytes():
    tray = Tray(1, "host:1:aa")
    long = encoded("job.failed", 30, {f"text{number}": "x" * 2_000 for number in range(10)})
    for _ in range(EVENTS):
        tray.put(long)
    sheet = tray.take()

    assert 0 < sheet.size < EVENTS
    assert len(sheet.events) <= BYTES + EVENTS + 2


def test_no_event_stands_behind_one_that_found_no_room():
    tray = Tray(1, "host:1:aa")
    tray.put(b"x" * (BYTES + 1))

    assert tray.room == 0
    tray.put(EVENT)
    assert tray.take().size == 0
    tray.put(EVENT)
    assert told(Reading(), tray.take()) == (1, [2])


@given(
    st.lists(
        st.one_of(st.integers(1, 300).map(lambda count: ("put", count)), st.sampled_from([("take", 0), ("lose", 0)])), max_size=30
    )
)
def test_what_is_read_and_what_is_told_to_be_missing_is_all_that_was_told(steps):
    tray, reading = Tray(1, "host:1:aa"), Reading()
    puts = read = dropped = 0
    for step, count in [*steps, ("put", 1), ("take", 0), ("take", 0)]:
        for _ in range(count):
            tray.put(EVENT)
        puts += count
        sheet = tray.take() if step != "put" else None
        if step == "take" and sheet is not None:
            events, missing = told(reading, sheet)
            read, dropped = read + events, dropped + sum(missing)

    assert read + dropped == puts


def test_an_event_has_no_traceback_and_no_field_of_none_and_long_texts_are_cut():
    class Odd:
        def __str__(self):
            return "odd\0\ud800"

    fields = {"error": "x" * 3_000, "traceback": "secret", "cause": None, "jobs": [1, 2], "odd": Odd(), "ran": 0.5}
    name, _, level, shown = msgspec.json.decode(encoded("job.failed", 5, fields))

    assert (name, level) == ("job.failed", 10)
    assert shown == {"error": "x" * 2_000 + "...", "jobs": [1, 2], "odd": "odd\ufffd\ufffd", "ran": 0.5}


def test_an_event_that_cannot_be_written_is_counted():
    class Worse:
        def __str__(self):
            raise ValueError("no text")

    tray = Tray(1, "host:1:aa")
    assert encoded("job.failed", 30, {"error": Worse()}) is None
    tray.put(encoded("job.failed", 30, {"error": Worse()}))

    assert told(Reading(), tray.take(), tray.take()) == (0, [1])


def test_a_reader_has_the_events_of_each_process_with_their_place_and_time():
    tray = Tray(1, "web:1:with:colons:42:aa")
    for text in encoded_each("job.completed", [(1.5, {"id": 1}), (2.5, {"id": 2})]):
        tray.put(text)

    first, second = Reading().events([row(tray.take())])

    assert (first.name, first.fields, first.host, first.pid) == ("job.completed", {"id": 1}, "web:1:with:colons", 42)
    assert str(second) == "job.completed id=2"
    assert (second.at - first.at).total_seconds() == 1.0
    assert second.at.tzinfo is UTC


def test_a_process_that_has_forgotten_a_subscription_and_comes_back_has_missed_an_unknown_number():
    before, after, other = Tray(1, "host:1:aa"), Tray(1, "host:1:bb"), Tray(1, "host:2:cc")
    reading = Reading()
    assert told(reading, before.take(), other.take()) == (0, [])

    events = list(reading.events([row(after.take())]))

    assert [(event.name, event.fields, event.pid) for event in events] == [(DROPPED, {"count": None}, 1)]


def test_a_reader_asks_for_the_sheets_behind_those_that_it_has_read():
    tray, reading = Tray(1, "host:1:aa"), Reading()
    tray.put(EVENT)
    list(reading.events([row(tray.take())]))

    assert reading.seen() == (["host:1:aa"], [1])


def test_a_sheet_that_seems_older_than_the_one_before_it_was_told_of_as_missing_and_is_not_read_behind_it():
    """As where the clock of the server was set back between the two."""
    tray, reading = Tray(1, "host:1:aa"), Reading()
    sheets = []
    for _ in range(3):
        tray.put(EVENT)
        sheets.append(tray.take())

    assert told(reading, sheets[0], sheets[2], sheets[1]) == (2, [1])
    assert reading.seen() == (["host:1:aa"], [3])
