"""What jobs truly draw and take by the files of physics (rule 21), job by job and cell by cell: a naive twin.

``Files`` is what was written into the files, as plain dictionaries. Nothing of ``wattqueue.sim.physics`` is used.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition

Cell = tuple[str, str, float]
"""Application, partition, clock (0 where the partition states none)."""


@dataclass
class Files:
    """Watts and seconds by cell, and by application and unit; the reference of jobs whose table does not say it."""

    watts: dict[Cell, float] = field(default_factory=dict)
    seconds: dict[Cell, float] = field(default_factory=dict)
    unit_watts: dict[tuple[str, int], float] = field(default_factory=dict)
    unit_seconds: dict[tuple[str, int], float] = field(default_factory=dict)
    limits: dict[tuple[str, str], list[tuple[float, float, float]]] = field(default_factory=dict)
    """Limit, watts and seconds of an application on a partition, in any order."""
    reference: str | None = None
    reference_hz: float | None = None


class NaivePhysics:
    """Answers for one job, one option and one unit at a time."""

    def __init__(self, files: Files, jobs: Jobs, machine: Machine) -> None:
        self.files, self.jobs, self.machine = files, jobs, machine
        self.parts = {p.name: p for p in machine.partitions}
        self.options = [(p.name, hz) for p in machine.partitions for hz in p.frequencies_hz or (0.0,)]
        self.units: dict[str, list[int]] = {p.name: [] for p in machine.partitions}
        numbers = iter(range(machine.units))
        for p in machine.partitions:
            self.units[p.name] = [next(numbers) for _ in range(p.units)]

    def app(self, job: int) -> str:
        return str(self.jobs.app.values()[job])

    def known(self, app: str) -> bool:
        return any(cell[0] == app for cell in (*self.files.watts, *self.files.unit_watts))

    def reference(self, job: int) -> tuple[str, float]:
        """Partition and clock at which the job ran: the job table's word, then the files', then the first partition."""
        names = list(self.parts)
        stated = str(self.jobs.extra["ran_partition"][job] or "") if "ran_partition" in self.jobs.extra else ""
        user = str(self.jobs.partition.values()[job])
        if not stated and user in names:
            stated = user
        if not stated and len(names) > 1 and self.files.reference:
            stated = self.files.reference
        part = stated or names[0]
        hz = self.jobs.extra["ran_frequency_hz"][job] if "ran_frequency_hz" in self.jobs.extra else np.nan
        if np.isnan(hz) and self.files.reference_hz and (part == self.files.reference or len(names) == 1):
            hz = self.files.reference_hz
        return part, self.highest(part) if np.isnan(hz) else float(hz)

    def highest(self, part: str) -> float:
        return (self.parts[part].frequencies_hz or (0.0,))[0]

    @staticmethod
    def slowdown(part: Partition, hz: float) -> float:
        """Run time at a clock over that at the highest one."""
        return part.dvfs_beta * (part.frequencies_hz[0] / hz - 1.0) + 1.0 if hz else 1.0

    @staticmethod
    def dynamic(part: Partition, hz: float) -> float:
        """Watts above idle at a clock over those at the highest one."""
        return (hz / part.frequencies_hz[0]) ** part.dvfs_alpha if hz else 1.0

    def moved_w(self, watts: float, part: str, known_hz: float, hz: float) -> float:
        """Watts at another clock of the partition, by its exponent."""
        p = self.parts[part]
        idle = min(p.idle_w, watts)
        return idle + (watts - idle) * self.dynamic(p, hz) / self.dynamic(p, known_hz)

    def moved_s(self, seconds: float, part: str, known_hz: float, hz: float) -> float:
        p = self.parts[part]
        return seconds * self.slowdown(p, hz) / self.slowdown(p, known_hz)

    def figure(self, app: str, part: str, hz: float, home: str, what: str) -> float:
        """Watts or seconds of an application in a cell, by the files, else by the exponents."""
        cells: Any = getattr(self.files, what)
        units: Any = getattr(self.files, f"unit_{what}")
        move = self.moved_w if what == "watts" else self.moved_s
        if (app, part, hz) in cells:
            return float(cells[app, part, hz])
        clocks = self.parts[part].frequencies_hz or (0.0,)
        stated = [f for f in clocks if (app, part, f) in cells]
        if stated:
            return move(float(cells[app, part, stated[0]]), part, stated[0], hz)
        if (app, 0) in units:
            mean = sum(units[app, u] for u in self.units[part]) / len(self.units[part])
            return move(mean, part, clocks[0], hz)
        if part == home:
            return move(1.0, part, clocks[0], hz)
        return move(self.figure(app, home, self.highest(home), home, what), part, clocks[0], hz)

    def watts(self, job: int, option: int) -> float:
        """Watts of a unit of factor 1; NaN where nobody knows them."""
        (part, hz), (home, home_hz), app = self.options[option], self.reference(job), self.app(job)
        own = np.nan if self.jobs.mean_power_w is None else float(self.jobs.mean_power_w[job])
        if self.known(app):
            here = self.figure(app, part, hz, home, "watts")
            return here if np.isnan(own) else own * here / self.figure(app, home, home_hz, home, "watts")
        most = self.parts[part].max_w
        if np.isnan(own):
            return np.nan if most is None else self.moved_w(most, part, self.highest(part), hz)
        return self.moved_w(self.moved_w(own, home, home_hz, self.highest(home)), part, self.highest(part), hz)

    def slower(self, job: int, option: int) -> float:
        """Run time over that of the trace."""
        (part, hz), (home, home_hz), app = self.options[option], self.reference(job), self.app(job)
        if self.known(app):
            return self.figure(app, part, hz, home, "seconds") / self.figure(app, home, home_hz, home, "seconds")
        return self.slowdown(self.parts[part], hz) / self.slowdown(self.parts[home], home_hz)

    def slower_under_limits(self, job: int, option: int, speed: float) -> float | None:
        """Run time over that of the option, where limits leave a job so much of its speed; None where no file says it.

        The curve is over watts above idle at the highest clock: first what the clock leaves of them, then the limit.
        """
        part, hz = self.options[option]
        rows = sorted(self.files.limits.get((self.app(job), part), []))
        if not rows:
            return None
        p = self.parts[part]
        shares = [(watts - p.idle_w) / (rows[-1][1] - p.idle_w) for _, watts, _ in rows]
        times = [seconds / rows[-1][2] for _, _, seconds in rows]
        clock = self.dynamic(p, hz)
        if clock <= shares[0]:
            return None
        alone = float(np.interp(clock, shares, times))
        points = [(s / clock, t / alone) for s, t in zip(shares, times, strict=True) if s < clock] + [(1.0, 1.0)]
        share: float = speed**p.dvfs_alpha
        for (low, before), (high, after) in itertools.pairwise(points):
            if low < share <= high:
                return float(before + (share - low) / (high - low) * (after - before))
        lowest = points[0][0] ** (1.0 / p.dvfs_alpha)
        return float(self.by_speed(p, speed) * points[0][1] / self.by_speed(p, lowest))

    @staticmethod
    def by_speed(part: Partition, speed: float) -> float:
        return part.dvfs_beta * (1.0 / speed - 1.0) + 1.0

    def on_unit(self, app: str, unit: int, what: str) -> float:
        """The factor of a unit: over the mean of its partition."""
        table: Any = getattr(self.files, f"unit_{what}")
        if (app, unit) not in table:
            return 1.0
        own = next(units for units in self.units.values() if unit in units)
        return float(table[app, unit] / (sum(table[app, u] for u in own) / len(own)))
