"""Hours of the week in which jobs run that have no budget left."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY = 24 * 60
WEEK = 7 * DAY
_WORDS = re.compile(r"(?:([A-Za-z]{3})(?:-([A-Za-z]{3}))?)?(?: ?\b([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2}))?")


@dataclass(frozen=True)
class SpareHours:
    """Spans of each week in a time zone, clock changes included."""

    zone: ZoneInfo
    weekly: tuple[tuple[int, int], ...]
    """Begins and ends in minutes from Monday 00:00, apart from each other; an end may lie in the week after."""

    @classmethod
    def of(cls, texts: Iterable[str], zone: ZoneInfo) -> SpareHours:
        """Return the hours of texts such as ``Mon-Fri 20:00-06:00`` and ``Sat-Sun``.

        Raises: ValueError for a text that is none, and where there is no hour of the week, or no other one.
        """
        spare = np.zeros(WEEK, np.bool_)
        for text in texts:
            for begin, end in _spans(text):
                spare[np.arange(begin, end) % WEEK] = True
        edges = np.flatnonzero(spare != np.roll(spare, 1)).tolist()
        if not edges:
            raise ValueError("every hour of the week is spare" if spare[0] else "no hour of the week is spare")
        edges = [*edges, edges[0] + WEEK]
        return cls(zone, tuple((one, following) for one, following in pairwise(edges) if spare[one]))

    def span(self, at_s: float, least_s: float) -> tuple[float, float]:
        """Return the first span that has so many seconds left from a time on; (inf, inf) if none is that long."""
        local = datetime.fromtimestamp(at_s, self.zone)
        monday = datetime(local.year, local.month, local.day) - timedelta(days=local.weekday())  # noqa: DTZ001
        for week in (-1, 0, 1, 2):
            for minutes in self.weekly:
                begin, end = (
                    (monday + timedelta(weeks=week, minutes=minute)).replace(tzinfo=self.zone).timestamp()
                    for minute in minutes
                )
                if end - max(begin, at_s) >= least_s:
                    return begin, end
        return float("inf"), float("inf")


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of one text. Raises: ValueError for one that is none."""
    found = _WORDS.fullmatch(text.strip())
    if found is None or not text.strip() or (found[1] or DAYS[0]) not in DAYS or (found[2] or DAYS[0]) not in DAYS:
        raise ValueError(f"{text!r} states no hours")
    first = DAYS.index(found[1]) if found[1] else 0
    last = DAYS.index(found[2]) if found[2] else first if found[1] else 6
    begin, end = (int(found[k]) * 60 + int(found[k + 1]) if found[3] else 0 for k in (3, 5))
    if max(begin, end) > DAY or last < first or (found[3] and begin == end):
        raise ValueError(f"{text!r} states no hours")
    end += DAY if end <= begin else 0
    return [(day * DAY + begin, day * DAY + end) for day in range(first, last + 1)]
