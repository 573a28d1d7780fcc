"""Local days of a site: which are business days, and where an interval stands on its day's clock.

Published baselines compare the same hours of different days, by the wall clock of the site. On the day on which summer
time begins an hour is missing, and such a day has no figure there; on the day on which it ends an hour occurs twice,
and the day's figure is the mean of the two. No rule that is implemented here says what to do on these days; this is
WattQueue's reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wattqueue.errors import InputError

SATURDAY, SUNDAY = 5, 6
"""``date.weekday()`` of the weekend."""


def zone_of(name: str, where: str) -> ZoneInfo:
    """Return a time zone of the IANA database by its name. Raises: InputError for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"no time zone {name!r}", where=where, hint="for example Europe/Berlin or UTC") from error


@dataclass(frozen=True, slots=True)
class SiteCalendar:
    """The time zone and the holidays of a site."""

    zone: ZoneInfo
    holidays: frozenset[date] = frozenset()

    def local(self, time_s: int) -> tuple[date, int]:
        """Return the local day of an instant, and the seconds that its wall clock shows since midnight."""
        moment = datetime.fromtimestamp(time_s, UTC).astimezone(self.zone)
        return moment.date(), moment.hour * 3_600 + moment.minute * 60 + moment.second

    def is_business(self, day: date) -> bool:
        """Return whether a day is a weekday and no holiday."""
        return day.weekday() < SATURDAY and day not in self.holidays

    def kind(self, day: date) -> str:
        """Return ``weekday``, ``saturday`` or ``sunday``; a holiday counts as a Sunday."""
        if day in self.holidays or day.weekday() == SUNDAY:
            return "sunday"
        return "saturday" if day.weekday() == SATURDAY else "weekday"

    def skips(self, day: date, second: int) -> bool:
        """Return whether the wall clock of a day leaves a time out: it does not survive the way through UTC."""
        clock = time(second // 3_600, second % 3_600 // 60, second % 60)
        local = datetime.combine(day, clock, self.zone)
        return local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != local.replace(tzinfo=None)

    def hour_begin(self, time_s: int) -> int:
        """Return the instant at which the wall clock's hour of ``time_s`` began."""
        return time_s - self.local(time_s)[1] % 3_600

    def hour_end(self, time_s: int) -> int:
        """Return the first instant at or after ``time_s`` at which the wall clock shows a full hour."""
        return time_s + -self.local(time_s)[1] % 3_600

    def text(self, time_s: int) -> str:
        """Return an instant as the site's clock shows it, with its offset from UTC: ``2023-03-01 18:00+01:00``."""
        return datetime.fromtimestamp(time_s, UTC).astimezone(self.zone).isoformat(" ", "minutes")


def days_before(day: date, most: int) -> Iterable[date]:
    """Yield the days before ``day``, the latest first, at most ``most`` calendar days back."""
    return (day - timedelta(days=back) for back in range(1, most + 1))
