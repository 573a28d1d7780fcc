"""Budgets from a TOML file: an amount of energy, money or carbon for a user, an account or all, by day, week or month.

::

    time_zone = "Europe/Berlin"
    [accounts]
    phys = ["ann", "bob"]
    [[budgets]]
    name = "phys"
    account = "phys"      # or user = "ann", or project = "climate"; none of them: all jobs together
    amount = 1200.0
    unit = "kWh"          # or EUR, gCO2, ... by a file of prices
    period = "month"
    over = "wait"         # or "spare-hours": what has no budget left runs in them
    spare_hours = ["Mon-Fri 20:00-06:00", "Sat-Sun"]   # above the first [[budgets]]

Times are seconds on the clock of the jobs, as Unix time; a trace that begins at 0 begins in 1970.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.checked_toml import Section, read_model
from wattqueue.formats.source import in_folder
from wattqueue.formats.tariff import gaps, parse_source, read_tariff
from wattqueue.formats.toml import dumps, read_toml
from wattqueue.model.budgets import MICRO, MJ_PER_KWH, Budget, overlapping
from wattqueue.model.signals import Series
from wattqueue.model.spare_hours import SpareHours

FIRST, LAST = 1970, 2100
"""Years of the periods of a budget without dates."""
Period = Literal["day", "week", "month"]


class BudgetRow(Section):
    """One budget of the file."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    user: str | None = None
    account: str | None = None
    """One of ``[accounts]``, or else of the resource manager or the job table."""
    project: str | None = None
    """The wckey of jobs in Slurm and in its accounting, ``project`` in Flux."""
    amount: Annotated[float, Field(ge=0, le=1e12)]
    """Of one period, in the unit."""
    unit: Annotated[str, Field(min_length=1, max_length=12)] = "kWh"
    period: Period = "month"
    begin: Annotated[str, Field(max_length=10)] | None = None
    """First day, as 2026-01-01."""
    end: Annotated[str, Field(max_length=10)] | None = None
    """The day after the last one."""
    prices: str | None = None
    """CSV of prices or intensities, where the unit is none of energy."""
    price_unit: str | None = None
    mode: Literal["maximum", "quantile"] = "maximum"
    quantile: Annotated[float, Field(gt=0, le=1)] = 0.95
    qos: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    """A QOS of Slurm that all its jobs have, and no others: it limits them while no controller is at work."""
    over: Literal["wait", "spare-hours"] = "wait"
    """What becomes of jobs for which it has no room."""


class BudgetFile(Section):
    """The whole file."""

    time_zone: str = "UTC"
    accounts: dict[str, list[str]] = Field(default_factory=dict)
    """Users of each account."""
    spare_hours: list[str] = Field(default_factory=list)
    """Hours of the week, as ``Mon-Fri 20:00-06:00`` or ``Sat-Sun``."""
    budgets: Annotated[list[BudgetRow], Field(min_length=1)]


def read_budgets(path: Path) -> tuple[Budget, ...]:
    """Return the budgets of a file. An account that lists no users is one of the resource manager.

    Raises: InputError naming file and key: periods that overlap, a negative amount, a price series with a gap.
    """
    file = read_model(path, BudgetFile, read_toml(path))
    try:
        zone = ZoneInfo(file.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(
            f"time_zone {file.time_zone!r} is unknown", where=path, hint="such as Europe/Berlin"
        ) from error
    spare = None
    if file.spare_hours:
        try:
            spare = SpareHours.of(file.spare_hours, zone)
        except ValueError as error:
            hint = "such as Mon-Fri 20:00-06:00, or Sat-Sun"
            raise InputError(f"spare_hours: {error}", where=path, hint=hint) from error
    found = [_budget(row, file, zone, path, spare) for row in file.budgets]
    for name in {one.name for one in found}:
        spans = [(float(one.edge_s[0]), float(one.edge_s[-1])) for one in found if one.name == name]
        if overlapping(spans):
            hint = "give them other names, or begin and end"
            raise InputError(f"periods of budget {name!r} overlap", where=path, hint=hint)
    for qos in {one.qos for one in found if one.qos}:
        if len(names := sorted({one.name for one in found if one.qos == qos})) > 1:
            hint = "jobs of a QOS are of one budget: give each its own"
            raise InputError(f"budgets {' and '.join(names)} name the same QOS {qos}", where=path, hint=hint)
    return tuple(found)


def set_budget(path: Path, row: Mapping[str, object]) -> None:
    """Write a budget into a file of a live controller, in place of those of its name; comments are not kept.

    Raises: InputError for a row that cannot be used, OutputError where it cannot be written: the file is as it was.
    """
    data = read_toml(path) if path.exists() else {}
    others = [one for one in data.get("budgets", []) if one.get("name") != row["name"]]
    text = dumps({**data, "budgets": [*others, dict(row)]})
    trial = path.with_name(f".{path.name}.trial")
    atomic_text(trial, text)
    try:
        read_budgets(trial)
    except InputError as error:
        raise InputError(str(error).replace(str(trial), str(path))) from error
    finally:
        trial.unlink(missing_ok=True)
    atomic_text(path, text, mode=stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644)


def _budget(row: BudgetRow, file: BudgetFile, zone: ZoneInfo, path: Path, spare: SpareHours | None) -> Budget:
    where = f"{path}: budget {row.name}"
    stated = [kind for kind in ("user", "account", "project") if getattr(row, kind) is not None]
    if len(stated) > 1:
        raise InputError(f"states {' and '.join(stated)}", where=where, hint="state one of them")
    if stated and not getattr(row, stated[0]):
        raise InputError(f"{stated[0]} is empty", where=where, hint="leave it out for a budget of all jobs")
    if row.over == "spare-hours" and spare is None:
        raise InputError("no spare hours are stated", where=where, hint='state spare_hours = ["Sat-Sun"] in the file')
    users = [] if row.user is None else [row.user]
    if row.account in file.accounts:
        users = file.accounts[row.account]
        if not users:
            raise InputError(f"account {row.account!r} has no user", where=where)
    of_manager = row.account if row.account is not None and not users else ""
    edges = _edges(row, zone, where)
    if (row.prices is None) != (row.unit == "kWh"):
        hint = "a budget in kWh has no prices, any other unit needs them"
        raise InputError(f"unit {row.unit} and prices do not fit", where=where, hint=hint)
    if row.qos and (row.unit != "kWh" or row.mode != "maximum" or row.over != "wait"):
        hint = (
            'a QOS counts whole time limits of jobs that wait: unit = "kWh", mode = "maximum", over = "wait"; or no qos'
        )
        raise InputError("a QOS cannot keep it", where=where, hint=hint)
    series = None if row.prices is None else _series(row, path, where, edges)
    amount = round(row.amount * (MJ_PER_KWH if series is None else MICRO))
    mode = {"mode": row.mode, "quantile": row.quantile if row.mode == "quantile" else 1.0}
    more = {"project": row.project or "", "qos": row.qos, "spare": spare if row.over == "spare-hours" else None, **mode}
    return Budget(row.name, frozenset(users), amount, row.unit, edges, series, account=of_manager, **more)  # type: ignore[arg-type]


def _series(row: BudgetRow, path: Path, where: str, edges: NDArray[np.float64]) -> Series:
    tariff = read_tariff(
        parse_source(Path(in_folder(str(row.prices), path.parent)), row.price_unit, "price_unit"), 0.0, repair=False
    )
    if tariff.source.amount != row.unit:
        raise InputError(f"is in {row.unit}, and its prices in {tariff.source.unit}", where=where)
    time_s = tariff.series.time_s
    if len(gaps(time_s, float(max(edges[0], time_s[0])), float(edges[-1]))):
        raise InputError("its prices have a gap", where=f"{where}: {row.prices}", hint="fill the gap")
    return Series(time_s, tariff.series.value / tariff.source.per_j)


def _edges(row: BudgetRow, zone: ZoneInfo, where: str) -> NDArray[np.float64]:
    """Return the begins of the periods in a zone, and the end of the last one: clock changes included."""
    first, last = (_day(text, year, where) for text, year in ((row.begin, FIRST), (row.end, LAST)))
    if not first < last:
        raise InputError("ends before it begins", where=where)
    days, at = [first], first
    while at < last:
        at = _next(at, row.period)
        days.append(min(at, last))
    return np.array([day.replace(tzinfo=zone).timestamp() for day in days])


def _next(day: datetime, period: str) -> datetime:
    """Return the first day of the next period."""
    if period == "month":
        return day.replace(day=1, year=day.year + day.month // 12, month=day.month % 12 + 1)
    return day + timedelta(days=1 if period == "day" else 7 - day.weekday())


def _day(text: str | None, year: int, where: str) -> datetime:
    if text is None:
        return datetime(year, 1, 1)  # noqa: DTZ001 - a day of the zone
    try:
        day = datetime.strptime(text, "%Y-%m-%d")  # noqa: DTZ007 - a day of the zone
    except ValueError as error:
        raise InputError(f"{text!r} is no day", where=where, hint="for example 2026-01-01") from error
    if not FIRST <= day.year <= LAST:
        raise InputError(f"{text!r} is outside {FIRST} to {LAST}", where=where, hint="correct the year")
    return day
