"""Small meters for tests: hourly watts by local day, written as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from wattqueue.model.jobs import Labels
from wattqueue_grid.meter import MeterData
from wattqueue_grid.settlement.calendar import SiteCalendar
from wattqueue_grid.settlement.load_history import BaselineCase, CalledEvent, LoadHistory

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str, zone: ZoneInfo = BERLIN) -> int:
    """Unix time of a local date such as ``2023-03-15 14:00``."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


def meter(days: Mapping[str, Mapping[int, float] | float], last: str, *, first: str, step: int = 3_600) -> MeterData:
    """A meter from local midnight of ``first`` to the end of ``last``: a day's watts, or those of its hours.

    Hours that a day does not list have 100 W; days that are not listed have 100 W throughout.
    """
    begin, end = unix(f"{first} 00:00"), unix(f"{date.fromisoformat(last) + timedelta(days=1)} 00:00")
    watts = []
    for time_s in range(begin, end, step):
        local = datetime.fromtimestamp(time_s, BERLIN)
        listed = days.get(local.date().isoformat(), 100.0)
        watts.append(listed.get(local.hour, 100.0) if isinstance(listed, Mapping) else listed)
    power = np.array(watts, np.float64)
    label = Labels(np.where(np.isnan(power), -1, 0).astype(np.int32), ("measured",))
    return MeterData(begin, step, power, label, "table of the test")


def case(
    found: MeterData,
    begin: str,
    end: str,
    *,
    others: Sequence[tuple[str, str]] = (),
    holidays: Sequence[str] = (),
    committed_w: int = 0,
) -> BaselineCase:
    """An event between two local times, with other events and holidays."""
    calendar = SiteCalendar(BERLIN, frozenset(date.fromisoformat(day) for day in holidays))
    event = CalledEvent("e", unix(begin), unix(end), committed_w)
    more = tuple(CalledEvent(f"o{i}", unix(a), unix(b), 0) for i, (a, b) in enumerate(others))
    return BaselineCase(LoadHistory(found, calendar), event, more)
