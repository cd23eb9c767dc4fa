"""When schedules tick: against every transition of every time zone, and against a clock that is read minute by minute."""

import random
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastq.errors import FastqError, OptionError
from fastq.jobs.schedule import EPOCH, Cron, Every, latest, schedule_of

DAY, HOUR, MINUTE, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
STEP = 5 * DAY  # no zone changes its clock and changes it back within so few days


@cache
def transitions():
    """Return for each different clock one of its zones with (moment, offset before, offset after); 599 zones have 159 clocks."""
    clocks = {}
    moments = [FIRST + number * STEP for number in range((LAST - FIRST) // STEP)]
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        offsets = [moment.astimezone(zone).utcoffset() for moment in moments]
        changes = [
            (bisected(zone, moments[place], moments[place + 1]), before, after)
            for place, (before, after) in enumerate(pairwise(offsets))
            if before != after
        ]
        clocks.setdefault(tuple(changes), name)
    return {name: changes for changes, name in clocks.items()}


def bisected(zone, low, high):
    """Return the first minute that has the offset of `high`."""
    offset = high.astimezone(zone).utcoffset()
    while high - low > MINUTE:
        middle = low + (high - low) // (2 * MINUTE) * MINUTE
        low, high = (low, middle) if middle.astimezone(zone).utcoffset() == offset else (middle, high)
    return high


def ticks(schedule, begin, end):
    """Return the ticks after `begin` up to `end`."""
    found, tick = [], schedule.next_after(begin)
    while tick <= end:
        assert not found or tick > found[-1]
        found.append(tick)
        tick = schedule.next_after(tick)
    return found


def shown(moment, zone):
    return moment.astimezone(zone).replace(tzinfo=None)


def exists(local, zone):
    return shown(local.replace(tzinfo=zone).astimezone(UTC), zone) == local


@pytest.mark.further
def test_the_transitions_of_the_test_are_those_of_the_zones():
    known = transitions()

    assert sum(map(len, known.values())) > 5_000
    shifts = {after - before for changes in known.values() for _, before, after in changes}
    assert {HOUR, -HOUR, HOUR / 2, -HOUR / 2, DAY} <= shifts, "Lord Howe has half an hour, Samoa a day"
    assert any(shown(moment, ZoneInfo("Asia/Beirut")).time() == time(1) for moment, _, _ in known["Asia/Beirut"]), "at midnight"


@pytest.mark.further
def test_a_daily_schedule_has_one_tick_per_local_date_over_every_transition_of_every_zone():
    for name, changes in transitions().items():
        zone = ZoneInfo(name)
        daily = {at: Cron(f"{at.minute} {at.hour} * * *", name) for at in (time(0), time(2, 30), time(23, 30))}
        for moment, before, after in changes:
            middle = (moment.replace(tzinfo=None) + (before + after) / 2).time()  # in the gap, or in what is repeated
            for at, schedule in {**daily, middle: Cron(f"{middle.minute} {middle.hour} * * *", name)}.items():
                check_dates(zone, schedule, at, moment, (before, after))


def check_dates(zone, schedule, at, moment, offsets):
    """Look at the days around a transition."""
    begin, end = moment - 2 * DAY, moment + 2 * DAY
    dates = []
    for tick in ticks(schedule, begin, end):
        local = shown(tick, zone)
        if (
            local.time() != at
        ):  # a time that did not exist: as much later as the clock was put forward, on the date it was meant for
            local -= offsets[1] - offsets[0]
            assert local.time() == at, (zone, moment, at, tick)
            assert not exists(local, zone), (zone, moment, at, tick)
        dates.append(local.date())
    first = begin.replace(tzinfo=None) + offsets[0]
    count = (end - begin) // DAY + 1
    expected = [first.date() + number * DAY for number in range(count + 1)]
    expected = [
        date
        for date in expected
        if (begin < datetime.combine(date, at, zone).astimezone(UTC) <= end)
        and (
            exists(datetime.combine(date, at), zone)
            or any(exists(datetime.combine(date, time(hour)), zone) for hour in range(24))
        )
    ]
    assert dates == expected, (zone, moment, at)


@cache
def clock(name, begin, days):
    """Read a clock minute by minute."""
    zone = ZoneInfo(name)
    return [(begin + n * MINUTE, shown(begin + n * MINUTE, zone)) for n in range(days * 1440)]


ODD = [
    ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, tzinfo=UTC)),
    ("Asia/Beirut", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Asia/Beirut", datetime(2026, 10, 24, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 4, 4, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 9, 5, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 23, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 10, 29, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 14, tzinfo=UTC)),
    ("America/Nuuk", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2026, 3, 28, tzinfo=UTC)),  # two hours
    ("Antarctica/Troll", datetime(2026, 10, 24, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 1, 30, tzinfo=UTC)),
]


@pytest.mark.parametrize(("name", "begin"), ODD, ids=lambda value: str(value)[:10])
@pytest.mark.parametrize("expression", ["* * * * *", "*/7 * * * *", "0 */2 * * *", "15,45 * * * sat,sun", "30 * 28-30 * *"])
def test_an_entry_for_any_hour_ticks_whenever_the_clock_shows_a_time_that_fits(name, begin, expression):
    minutes, hours, days, _, weekdays = (
        spell(field, size) for field, size in zip(expression.split(), (60, 24, 32, 13, 7), strict=True)
    )
    expected = [
        moment
        for moment, local in clock(name, begin, 3)[1:]
        if local.minute in minutes and local.hour in hours and local.day in days and local.isoweekday() % 7 in weekdays
    ]

    assert ticks(Cron(expression, name), begin, begin + 3 * DAY - MINUTE) == expected


@pytest.mark.parametrize(("name", "begin"), ODD, ids=lambda value: str(value)[:10])
@pytest.mark.parametrize("expression", ["*/10 0-4 * * *", "5,35 0,1,2,3,23 * * *", "*/20 1 * * sun", "* 2 * * *"])
def test_an_entry_for_named_hours_ticks_once_for_each_time_that_the_clock_shows(name, begin, expression):
    minutes, hours, _, _, weekdays = (
        spell(field, size) for field, size in zip(expression.split(), (60, 24, 32, 13, 7), strict=True)
    )
    minute_by_minute = clock(name, begin - DAY, 5)
    first = {}
    for moment, local in minute_by_minute:
        if local.minute in minutes and local.hour in hours and local.isoweekday() % 7 in weekdays:
            first.setdefault(local, moment)
    expected = set(first.values())
    for (before, shown_before), (_, shown_now) in pairwise(minute_by_minute):  # what a gap leaves out comes later by it
        for local in (shown_before + n * MINUTE for n in range(1, (shown_now - shown_before) // MINUTE)):
            if local.minute in minutes and local.hour in hours and local.isoweekday() % 7 in weekdays:
                expected.add(before + (local - shown_before))

    got = ticks(Cron(expression, name), begin, begin + 3 * DAY)
    assert got == sorted(tick for tick in expected if begin < tick <= begin + 3 * DAY)


def spell(field, size):
    """Return the numbers of a simple field, by hand."""
    names = {"sun": 0, "sat": 6}
    numbers = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        low, high = (0, size - 1) if low == "*" else (names.get(low, low), names.get(high or low, high or low))
        numbers |= set(range(int(low), int(high) + 1, int(step or 1)))
    return numbers


@pytest.mark.parametrize(
    ("expression", "tz", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T01:30Z"),  # 02:30 does not exist: 03:30 summer time
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T00:30Z"),  # the first 02:30
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30Z", "2026-10-26T01:30Z"),  # not the second
        ("30 * * * *", "Europe/Berlin", "2026-10-25T00:30Z", "2026-10-25T01:30Z"),  # each real hour
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", "2026-10-03T15:45Z"),  # 02:15 comes at 02:45
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00Z", "2026-03-28T22:00Z"),  # midnight comes at one
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T20:00Z", "2011-12-30T19:00Z"),  # the 29th, then the 31st
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-29T20:00Z", "2011-12-30T19:00Z"),  # the 30th does not exist: a day later
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00Z", "2104-02-29T00:00Z"),  # 2100 is no leap year
        ("0 0 31 * *", "UTC", "2026-01-31T00:00Z", "2026-03-31T00:00Z"),
        ("0 0 L * *", "UTC", "2026-01-31T00:00Z", "2026-02-28T00:00Z"),
        ("0 0 * * mon#1", "UTC", "2026-06-01T00:00Z", "2026-07-06T00:00Z"),
        ("0 0 13 * fri", "UTC", "2026-06-01T00:00Z", "2026-06-05T00:00Z"),  # either day field
        ("0 0 */13 * fri", "UTC", "2026-06-01T00:00Z", "2026-08-14T00:00Z"),  # with a star: both, 1, 14 or 27
        ("59 23 31 12 *", "UTC", "2026-12-31T23:59:59.5Z", "2027-12-31T23:59Z"),
    ],
)
def test_the_next_tick_is(expression, tz, after, expected):
    assert Cron(expression, tz).next_after(datetime.fromisoformat(after)) == datetime.fromisoformat(expected)


NAIVE = st.datetimes(datetime.fromisoformat("2000-01-01"), datetime.fromisoformat("2037-01-01"))


@settings(max_examples=300)
@given(
    st.sampled_from(["0 9 * * mon-fri", "*/15 * * * *", "30 1,2,3 * * *", "0 0 1 * *", "59 23 29 2 *", "7 */5 * 1-6 *"]),
    st.sampled_from([name for name, _ in ODD]),
    NAIVE,
    NAIVE,
)
def test_who_asks_from_where_makes_no_difference(expression, tz, one, other):
    schedule = Cron(expression, tz)
    early, late = sorted([one.replace(tzinfo=UTC), other.replace(tzinfo=UTC)])
    tick = schedule.next_after(early)

    assert tick > early
    assert schedule.next_after(tick) > tick
    assert schedule.next_after(tick - SECOND / 1_000_000) == tick
    assert schedule.next_after(late) >= tick
    if late < tick:
        assert schedule.next_after(late) == tick
    assert schedule.next_after(early.astimezone(ZoneInfo(tz))) == tick


@given(
    st.text(alphabet="0123456789*/,-L#W monfri?²", max_size=24).map(lambda text: text.strip() + " * * * *") | st.text(max_size=12)
)
def test_any_text_is_an_expression_or_refused(text):
    schedule = None
    with suppress(OptionError):
        schedule = Cron(text)
    assert schedule is None or schedule_of(str(schedule), "UTC") == schedule


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("* * * *", "expected five fields: minute hour"),
        ("0 * * * * *", "expected five fields"),
        (None, "expected five fields"),
        ("60 * * * *", "bad minute; the fields are minute hour"),
        ("* 24 * * *", "bad hour"),
        ("0 0 31 4 *", "bad day-of-month"),
        ("0 0 * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("0 0 * 2 tue#6", "bad day-of-week"),
    ],
)
def test_a_bad_expression_is_refused_with_the_field(expression, told):
    with pytest.raises(OptionError, match=told):
        Cron(expression)


@pytest.mark.parametrize(
    ("tz", "told"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'"),
        ("../../etc/passwd", "no IANA time zone"),
        ("Europe", "no IANA time zone"),
        ("localtime", "no IANA time zone"),
        ("/etc/localtime", "such as 'Europe/Berlin'"),
        ("", "expected the name"),
        (UTC, "expected the name"),
        ("a\0b", "no IANA time zone"),
    ],
)
def test_a_bad_zone_is_refused(tz, told):
    with pytest.raises(OptionError, match=told):
        Cron("* * * * *", tz)


@given(st.floats(1, 366 * 86_400), NAIVE)
def test_an_interval_ticks_at_its_multiples(seconds, moment):
    schedule, moment = Every(seconds), moment.replace(tzinfo=UTC)
    tick = schedule.next_after(moment)

    assert moment < tick <= moment + schedule.step
    assert (tick - EPOCH) % schedule.step == timedelta(0)
    assert schedule_of(str(schedule), "UTC") == schedule
    assert abs(schedule.step.total_seconds() - seconds) < 1e-6 * max(1, seconds)


@pytest.mark.parametrize(
    "seconds", [0.999, 0, -1, float("nan"), float("inf"), 367 * 86_400, True, "30", timedelta(milliseconds=1)]
)
def test_what_is_no_interval_is_refused(seconds):
    with pytest.raises(OptionError, match="expected"):
        Every(seconds)


def test_a_moment_without_a_zone_is_refused():
    for schedule in (Every(1), Cron("* * * * *")):
        with pytest.raises(FastqError, match="expected a datetime with a time zone"):
            schedule.next_after(datetime.fromisoformat("2026-01-01"))


@pytest.mark.parametrize("text", ["", "cron", "every", "every x", "every 0", "at noon", "cron 61 * * * *", "every 1e400"])
def test_what_no_schedule_wrote_is_refused(text):
    with pytest.raises(OptionError):
        schedule_of(text, "UTC")


@pytest.mark.parametrize(
    ("schedule", "span"),
    [(Every(1), HOUR / 6), (Every(90), DAY), (Cron("* * * * *"), DAY), (Cron("30 2 * * *", "Europe/Berlin"), 60 * DAY)],
    ids=str,
)
def test_the_latest_ticks_are_the_last_of_all(schedule, span):
    numbers = random.Random(7)
    for _ in range(10):
        since = datetime(2026, 3, 20, tzinfo=UTC) + numbers.random() * 20 * DAY
        now = since + numbers.random() * span
        all_of_them = ticks(schedule, since - SECOND / 1_000_000, now)
        for count in (1, 3, 40):
            assert latest(schedule, since, now, count) == all_of_them[-count:]


def test_the_latest_ticks_of_years_are_found_without_counting_them_all():
    now = datetime(2026, 3, 20, tzinfo=UTC)

    assert latest(Every(1), FIRST, now, 2) == [now - SECOND, now]
    assert latest(Cron("* * * * *"), FIRST, now, 1) == [now]
    assert latest(Cron("0 0 29 2 *"), FIRST, now, 1) == [datetime(2024, 2, 29, tzinfo=UTC)]
    assert latest(Cron("0 0 29 2 *"), now - DAY, now, 1) == []
