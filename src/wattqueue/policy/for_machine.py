"""Rows for the machine at hand: options that it fills in, and choices that follow from what it can give.

A machine file may name what the site knows (``[known]``): EAR's tables, factors of units, prices. A part whose row
names no such file reads that of the machine. A choice may be ``for-machine``: it becomes the part for that machine, and
what the machine cannot give is left out and said (``left_out`` of the row). The row ``combined`` has nothing but such
choices. What is known of jobs and limits alone (consent, load targets) is not looked at here: parts that cannot act in
a run are named by it (``policy/effects.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.machine import Machine
from wattqueue.policy.interfaces import AXES, CORRECTIONS, stated
from wattqueue.policy.registry import part_class, part_names
from wattqueue.policy.rows import FOR_MACHINE, LEFT_OUT, NO_CONTROLS, Row, listed
from wattqueue.policy.rows import part_names as part_names_of

SLOWED: Mapping[str, Any] = {"part": "consent", "start": "lowest"}
"""Consenting jobs start at the lowest clock to which they consent while a load target is in force (paper 5)."""


@dataclass(frozen=True)
class SiteFacts:
    """What a driver and a machine give to a policy."""

    machine: Machine | None
    """The machine; None where it is not known yet: then nothing is given."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Content of options that name files, or the files, by option (``row_files.READERS``)."""
    measures: bool = False
    """Whether the power of nodes, or of parts of them, is measured."""
    limits: bool = False
    """Whether the power of devices can be limited."""
    clocks: bool = False
    """Whether frequencies can be set."""
    meters: bool = False
    """Whether the power of the whole machine is metered."""

    @classmethod
    def simulated(cls, machine: Machine | None, known: Mapping[str, Any] | None = None) -> SiteFacts:
        """Return what a simulation gives: all that the machine states. ``known`` replaces the files that it names."""
        if machine is None:
            return cls(None, known or {})
        files = {} if machine.known is None else machine.known.options()
        sensor = machine.sensor is not None
        return cls(machine, files if known is None else known, sensor, sensor, clocks=True, meters=True)

    @property
    def several_clocks(self) -> bool:
        """Return whether some partition has a lower frequency that can be set."""
        return self.clocks and self.machine is not None and any(p.frequency_count > 1 for p in self.machine.partitions)

    @property
    def predicts_maxima(self) -> bool:
        """Return whether watts are predicted by what a unit draws at most, not by means."""
        return "profiles" not in self.known and ("table" in self.known or self.several_clocks)

    @property
    def redistributes(self) -> bool:
        """Return whether watts can be moved between devices by what is measured of them."""
        several = self.machine is not None and self.machine.devices > 1
        return several and self.measures and self.limits


Chosen = tuple[Any, list[str]]
"""Value of a choice, and what was left out of it."""


def _estimator(site: SiteFacts) -> Chosen:
    """EAR's watts and run times, with the factors of units; else the units' own watts, or the means of applications."""
    ear, table = site.known.get("profiles"), site.known.get("table")
    left = [] if ear else ["EAR's watts and run times: no file is known ([known] ear)"]
    left += [] if table else ["watts of units that differ: no file is known ([known] units)"]
    if ear:
        base = {"part": "ear", "profiles": ear}
        return ([base, {"part": "unit-factors", "table": table}] if table else base), left
    if table:
        return {"part": "unit-watts", "table": table}, left
    return ("maximum" if site.several_clocks else "app-mean"), left


def _run_times(_: SiteFacts) -> Chosen:
    """A quantile of the last run times of the user."""
    return "recent-quantile", []


def _order(site: SiteFacts) -> Chosen:
    """EAMC's order, where the partitions differ by EAR's figures."""
    if "profiles" not in site.known or site.machine is None:
        return "fcfs", []
    if len(site.machine.partitions) < 2:
        return "fcfs", ["the choice of a partition: the machine has one"]
    return "priority-inc", []


def _frequency(site: SiteFacts) -> Chosen:
    """EAMC's clock or lower under a cap, within users' windows; lower ones in targets as far as users consent."""
    if not site.several_clocks:
        return "highest", ["lower clocks: there is one, or none can be set (frequencies_hz)"]
    if "profiles" in site.known:
        return ["least-distance-or-lower", {"part": "frequency-window", "lowest_hz": 0.0}, dict(SLOWED)], []
    return ["frequency-window", dict(SLOWED)], []


def _placement(site: SiteFacts) -> Chosen:
    """Units of least watts, where they differ."""
    return ("least-watts" if "table" in site.known else "lowest"), []


def _backfill(site: SiteFacts) -> Chosen:
    """EASY, the shortest first, ahead to announced limits; consenting jobs count as slowed where they can be slowed."""
    ahead = {"part": "easy-sjbf", "ahead": "limits"}
    return ({**ahead, "slowed": True} if site.several_clocks else ahead), []


def _ledger(site: SiteFacts) -> Chosen:
    """What is measured of jobs; else a meter's margin where means are predicted, none where maxima are."""
    if site.measures:
        return "measured", []
    left = ["measured watts: nothing measures the nodes ([sensor])"]
    if site.predicts_maxima:
        return "predicted", left
    if not site.meters:
        return "predicted", [*left, "a margin: nothing meters the machine"]
    return "adaptive", left


def _controls(site: SiteFacts) -> Chosen:
    """Slow consenting jobs in targets, move watts between devices, delay consenting jobs to cheaper hours."""
    found: list[Any] = []
    left = []
    if site.several_clocks:
        found.append("slow-consenting")
    if site.redistributes:
        found.append(redistribution(site.machine))
    else:
        left.append("redistribution: no devices that are measured and limited")
    if "prices" in site.known:
        found.append({"part": "delay-consenting", "prices": site.known["prices"]})
    else:
        left.append("delays by price: no file is known ([known] prices)")
    return found, left


def redistribution(machine: Machine | None) -> Any:
    """Return the control that moves limits between devices, no more often than their sensors are read."""
    name = "rapl-redistribution"
    poll_s = 0.0 if machine is None or machine.sensor is None else machine.sensor.poll_s
    own_s = inspect.signature(part_class("controls", name)).parameters["period_s"].default
    return name if poll_s <= own_s else {"part": name, "period_s": poll_s}


CHOICES: Mapping[str, Callable[[SiteFacts], Chosen]] = {
    "estimator": _estimator,
    "runtime": _run_times,
    "order": _order,
    "frequency": _frequency,
    "placement": _placement,
    "backfill": _backfill,
    "ledger": _ledger,
    "controls": _controls,
}
"""What ``for-machine`` means for each choice."""


def row_on(row: Row, site: SiteFacts) -> Row:
    """Return a row for a machine: choices ``for-machine`` as parts, options that the row leaves open as it knows them.

    A row without either is returned as it is.

    Raises: InputError for factors that do not fit the machine, naming file and line.
    """
    found, left = dict(row), list[str]()
    for axis in AXES:
        if listed(row.get(axis)) == [FOR_MACHINE]:
            found[axis], without = CHOICES[axis](site)
            left += without
        elif site.known and axis in row:
            filled = [_filled(CORRECTIONS if axis == "estimator" and k else axis, value, site)
                      for k, value in enumerate(listed(row[axis]))]  # fmt: skip
            found[axis] = filled if isinstance(row[axis], list) else filled[0]
    _require_fit(found, site)
    return found if not left or site.machine is None else {**found, LEFT_OUT: left}


def expansion(name: str, named: Row, machine: Machine, made: Row) -> list[str]:
    """Return a sentence with what the choices of a row became for a machine; none where no choice follows from it."""
    chosen = [axis for axis in AXES if listed(named.get(axis)) == [FOR_MACHINE]]
    parts = ", ".join(f"{axis} {part_names_of(made[axis]) or NO_CONTROLS}" for axis in chosen)
    return [f"{name} on {machine.name}: {parts}"] if parts else []


def _filled(axis: str, value: Any, site: SiteFacts) -> Any:
    """Return a part of a row with the options that it leaves open as the site knows them."""
    named = value["part"] if isinstance(value, Mapping) else value
    if not isinstance(named, str) or (".py" not in named and named not in part_names(axis)):
        return value  # an object, or an unknown name, which is refused where it is built
    options = {"part": named} if isinstance(value, str) else dict(value)
    lacking = [key for key in stated(part_class(axis, named), "reads", ()) if key in site.known and key not in options]
    return {**options, **{key: site.known[key] for key in lacking}} if lacking else value


def _require_fit(row: Row, site: SiteFacts) -> None:
    """Raise InputError for a file of factors that does not fit the machine, where the row reads it."""
    table, machine = site.known.get("table"), site.machine
    parts = (each for axis in AXES for each in listed(row.get(axis)))
    if not isinstance(table, str) or machine is None or all(_table_of(each) != table for each in parts):
        return
    from wattqueue.formats.unit_factors import line_of_unit, read_unit_factors
    from wattqueue.parts.unit_tables import unit_numbers

    found = read_unit_factors(Path(table))
    number = unit_numbers(found)
    beyond = next((name for name, unit in number.items() if unit >= machine.units), None)
    if beyond is not None:
        raise InputError(
            f"unit {beyond!r} is none of the {machine.units} of {machine.name}, which count from 0",
            where=f"{table}:{line_of_unit(Path(table), beyond)}",
            hint="leave its rows out, or correct the number of nodes in the machine file",
        )
    lacking = set(range(machine.units)) - set(number.values())
    if lacking:
        raise InputError(
            f"has no row for unit {min(lacking)} of the {machine.units} of {machine.name}",
            where=table,
            hint=f"{MEASURE}, or leave units out of [known]",
        )
    gap = np.argwhere(np.isnan(found.factor))
    if len(gap):
        app, unit = found.apps[gap[0, 0]], found.units[gap[0, 1]]
        raise InputError(
            f"application {app!r} has no row for unit {unit!r}", where=table, hint=f"{MEASURE}, or leave {app!r} out"
        )


MEASURE = "add its watts (wattqueue pmc learn)"


def _table_of(part: Any) -> Any:
    """Return the table that a part of a row names; None for none."""
    return part.get("table") if isinstance(part, Mapping) else None
