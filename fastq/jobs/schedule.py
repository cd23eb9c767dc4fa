"""Say when: `Cron("0 9 * * mon-fri", tz="Europe/Berlin")` and `Every(30.0)`; pure time, any thread, no database.

Made by the thread that imports the application, and from text by the leader's chore and by commands; never changed. The functions
are pure, but for a cache of schedules. A schedule is a set of moments. `next_after(t)` is the first of them after t and depends
on nothing else, so that two leaders agree on every tick.

cronsim reads an expression and tells whether a date fits. Its walk from time to time is not used: it gives a time that does not
exist the first minute after the gap (so that Samoa's 31 December 2011 has two runs of a daily schedule), and loses minutes
where it is not a whole hour that is repeated (Lord Howe). Here we go from one local time to the next, by two rules:

- Hours are named (`0 9`, `*/15 2-4`): one tick for each local time of each date. One that does not exist ticks as much later
  as the clock was put forward; one that comes twice ticks the first time.
- The hour field begins with `*`: a tick whenever the clock shows a time that fits: each real hour, twice where one is repeated,
  not at all for times that no clock shows.

Python's zones do the shift: with fold=0 a local time in a gap has the offset from before it (PEP 495).
It deliberately has no seconds field (`Every` is for those) and does not notice new zone rules while it runs.
"""

from __future__ import annotations

import difflib
import functools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from fastq.errors import OptionError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW, DAY, MICROSECOND = timedelta(0), timedelta(days=1), timedelta(microseconds=1)

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=366)
"""Of an interval. Below a second a loop in a worker is the better tool; above a year a cron expression is meant."""

YEARS = 50
"""How far to look for a date: a leap day that is a Monday comes each 28 years, or each 40 around 2100."""

FIRST_WINDOW, GROWTH = timedelta(minutes=1), 4
"""How far to look back for the last ticks at first, and how much farther each time there were too few."""

HOSTS_OWN = frozenset({"localtime", "posixrules"})
"""Names of zones that each host may define in its own way: two leaders would not agree on the ticks."""

_FIELDS = "minute hour day-of-month month day-of-week"


@dataclass(frozen=True)
class Every:
    """Tick at the multiples of an interval since 1970 (UTC), so that the ticks do not depend on the start of a process."""

    seconds: float | timedelta

    def __post_init__(self) -> None:
        """Refuse a value that is no interval."""
        given = self.seconds
        if isinstance(given, bool) or not isinstance(given, int | float | timedelta):
            raise OptionError(f"Every({given!r}): expected seconds or a timedelta")
        seconds = given.total_seconds() if isinstance(given, timedelta) else given
        if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
            raise OptionError(f"Every({given!r}): expected 1 second to 366 days")
        object.__setattr__(self, "seconds", timedelta(seconds=seconds).total_seconds())  # whole microseconds

    @property
    def step(self) -> timedelta:
        """Return the interval, to the microsecond."""
        return self.seconds if isinstance(self.seconds, timedelta) else timedelta(seconds=self.seconds)

    @property
    def tz(self) -> str:
        """Return the zone that the database notes: an interval knows none."""
        return "UTC"

    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after a moment."""
        return EPOCH + self.step * ((_aware(moment) - EPOCH) // self.step + 1)

    def __str__(self) -> str:
        """Write it as the database keeps it: `every 30`."""
        return f"every {self.step.total_seconds():.6f}".rstrip("0").removesuffix(".")


@dataclass(frozen=True)
class Cron:
    """Tick when a clock in `tz` shows a time that fits five fields: minute, hour, day of month, month, day of week.

    Fields take `*`, lists, ranges, steps, names of months and days; the day of month also `L` (the last), the day of week `mon#2`
    (the second) and `5L` (the last Friday). Where both day fields are given without a `*`, either will do, as in Debian's cron.
    """

    expression: str
    tz: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _fits: CronSim = field(init=False, repr=False, compare=False)  # the fields, read; never advanced
    _hours: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _minutes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse an expression or a zone that is none, and one that never comes."""
        fits = _parsed(self.expression)
        derived = {
            "expression": " ".join(self.expression.lower().split()),
            "_zone": _zone_of(self.tz),
            "_fits": fits,
            "_hours": tuple(sorted(fits.hours)),
            "_minutes": tuple(sorted(fits.minutes)),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after a moment, in UTC."""
        zone, any_hour = self._zone, self.expression.split()[1].startswith("*")
        moment = _aware(moment).astimezone(UTC)
        # With the offset of a day later: a time that is past may come again; of a day earlier: one that was left out may be due.
        start = min(_shown(moment, zone, by) for by in (NOW, DAY if any_hour else -DAY))
        best: datetime | None = None
        for local in self._local_times(start.replace(second=0, microsecond=0)):
            first = local.replace(tzinfo=zone).astimezone(UTC)
            for tick in _ticks(local, first, zone) if any_hour else (first,):
                if tick > moment and (best is None or tick < best):
                    best = tick
            if best is not None and first >= best and local >= best.astimezone(zone).replace(tzinfo=None):
                return best
        raise OptionError(f"{self} does not come after {moment}")

    def _local_times(self, start: datetime) -> Iterator[datetime]:
        """Yield the local times that fit, from `start` on, whether they exist or not."""
        fits, day = self._fits, start.date()
        while day.year <= start.year + YEARS:
            if day.month not in fits.months:
                day = (day.replace(day=1) + 31 * DAY).replace(day=1)
                continue
            if fits.match_day(day):
                from_hour = start.hour if day == start.date() else 0
                for hour in self._hours[bisect_left(self._hours, from_hour) :]:
                    for minute in self._minutes:
                        local = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - a local time
                        if local >= start:
                            yield local
            day += DAY

    def __str__(self) -> str:
        """Write it as the database keeps it: `cron 0 9 * * mon-fri`."""
        return f"cron {self.expression}"


Schedule = Cron | Every


def latest(schedule: Schedule, since: datetime, now: datetime, count: int) -> list[datetime]:
    """Return the last `count` ticks from `since` to `now`, both included, in their order; looks back no farther than it must."""
    window = FIRST_WINDOW
    while True:
        begin = max(since, now - window)
        ticks, tick = [], schedule.next_after(begin - MICROSECOND)
        while tick <= now:
            ticks.append(tick)
            tick = schedule.next_after(tick)
        if len(ticks) >= count or begin == since:
            return ticks[-count:]
        window *= GROWTH


@functools.lru_cache(maxsize=1_000)  # as many schedules as anybody has; parsing one takes as long as ten ticks
def schedule_of(text: str, tz: str) -> Schedule:
    """Read a text that `str(schedule)` wrote; raise OptionError for any other."""
    word, _, rest = text.partition(" ")
    if word == "cron":
        return Cron(rest, tz)
    try:
        return Every(float(rest if word == "every" else "?"))
    except ValueError as error:  # OptionError is one
        raise OptionError(f"schedule {text!r}: expected 'cron EXPRESSION' or 'every SECONDS'") from error


def _shown(moment: datetime, zone: ZoneInfo, by: timedelta) -> datetime:
    """Return the local time of a moment, on a clock that has the offset of another moment."""
    offset = (moment + by).astimezone(zone).utcoffset()
    assert offset is not None
    return moment.replace(tzinfo=None) + offset


def _ticks(local: datetime, first: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return when a clock really shows a local time: once, twice or never."""
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    moments = (first,) if second == first else (first, second)
    return [moment for moment in moments if moment.astimezone(zone).replace(tzinfo=None) == local]


def _aware(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise OptionError(f"moment {moment!r}: expected a datetime with a time zone, such as datetime.now(UTC)")
    return moment


def _parsed(expression: object) -> CronSim:
    if not isinstance(expression, str) or len(expression.split()) != len(_FIELDS.split()):
        raise OptionError(f"Cron({expression!r}): expected five fields: {_FIELDS}, such as '0 9 * * mon-fri'")
    try:
        fits = CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - local times, in no zone
        next(CronSim(expression, datetime(2000, 1, 1)))  # noqa: DTZ001 - the same
    except CronSimError as error:
        raise OptionError(f"Cron({expression!r}): {str(error)[:1].lower()}{str(error)[1:]}; the fields are {_FIELDS}") from error
    except StopIteration:
        raise OptionError(f"Cron({expression!r}): such a day does not come in {YEARS} years") from None
    except (AssertionError, TypeError, ValueError) as error:  # cronsim's errors for odd mixtures of L, # and steps
        raise OptionError(f"Cron({expression!r}): cannot be read; the fields are {_FIELDS}") from error
    return fits


def _zone_of(tz: object) -> ZoneInfo:
    if not isinstance(tz, str) or not tz:
        raise OptionError(f"tz {tz!r}: expected the name of a time zone, such as 'Europe/Berlin'")
    try:
        if tz not in HOSTS_OWN:
            return ZoneInfo(tz)
    except (ValueError, OSError, KeyError):  # no file, a folder, not below the folder of zones; KeyError is "not found"
        pass
    near = difflib.get_close_matches(tz, available_timezones() - HOSTS_OWN, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ", such as 'Europe/Berlin'"
    raise OptionError(f"tz {tz!r}: no IANA time zone has this name{hint}")
