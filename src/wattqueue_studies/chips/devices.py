"""Measured devices for simulations: what policies know of them (even runs), and what is true (odd runs).

The jobs that they run are generated (``draw_jobs``), since no workload belongs to the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Prediction
from wattqueue_studies.chips.chip_runs import HALVES, QUANTITIES, ChipPair, ChipRuns

LIMITED_TIME_EXPONENT = 0.52
"""Run time grows with (watts / limit) to this power: 0.51 and 0.53 measured on V100s, 200 W against 150 W (matmul,
memory-bound; gridpilot, CC-BY-4.0)."""


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Applications on U devices. Shapes (A, U).

    Attributes:
        apps: Names of the applications, sorted as a job table sorts them.
        known_w: Watts by the runs that policies know, the even ones.
        known_s: Time of a kernel or an iteration, likewise.
        true_w: Watts by the odd runs, which simulations carry out.
        true_s: Time by the odd runs.
        highest_w: Highest watts of any run.
    """

    apps: tuple[str, ...]
    known_w: Floats
    known_s: Floats
    true_w: Floats
    true_s: Floats
    highest_w: Floats

    @property
    def units(self) -> int:
        """Return the number of devices."""
        return int(self.true_w.shape[1])

    def take(self, units: Sequence[int] | np.ndarray) -> Devices:
        """Return some devices, in this order."""
        return self._each(lambda column: column[:, units])

    def only(self, app: str) -> Devices:
        """Return one application on the devices."""
        return self.rows([self.apps.index(app)])

    def rows(self, rows: Sequence[int] | np.ndarray) -> Devices:
        """Return some applications, in this order; a row may occur again, for names that the caller gives."""
        return replace(self._each(lambda column: column[rows]), apps=tuple(self.apps[k] for k in rows))

    def limited(self, limit_w: float) -> Devices:
        """Return the devices under a limit of watts on each: what draws more draws the limit, and takes longer."""

        def slowed(time_s: Floats, watts: Floats) -> Floats:
            longer: Floats = time_s * np.maximum(watts / limit_w, 1.0) ** LIMITED_TIME_EXPONENT
            return longer

        return Devices(
            self.apps,
            np.minimum(self.known_w, limit_w),
            slowed(self.known_s, self.known_w),
            np.minimum(self.true_w, limit_w),
            slowed(self.true_s, self.true_w),
            np.minimum(self.highest_w, limit_w),
        )

    def machine(self) -> Machine:
        """Return the machine: a unit's stated maximum is the highest watts of any run on any device."""
        part = Partition("devices", self.units, max_w=float(self.highest_w.max()))
        return Machine("devices", (part,), "jobs", source="PAL data set, V100")

    def actual(self, apps: Sequence[int] | np.ndarray, reference_s: Floats) -> Prediction:
        """Return the truth of jobs whose applications are given by row; ``reference_s`` (A,) is factor 1 of time."""
        mean_w = self.true_w.mean(axis=1)
        return Prediction(
            mean_w[:, np.newaxis],
            np.ones((len(self.apps), 1)),
            np.asarray(apps, np.int32),
            unit_factor=self.true_w / mean_w[:, np.newaxis],
            unit_time_factor=self.true_s / reference_s[:, np.newaxis],
        )

    def table(self, watts: Floats) -> UnitTable:
        """Return watts of all applications by device as policies read them. Shape (A, U)."""
        return UnitTable.of_watts(self.apps, [f"device{k}" for k in range(self.units)], watts)

    def _each(self, change: Callable[[Floats], Floats]) -> Devices:
        """Return the devices with every column changed alike."""
        columns = (self.known_w, self.known_s, self.true_w, self.true_s, self.highest_w)
        return Devices(self.apps, *map(change, columns))


def devices(pair: ChipPair, runs: Sequence[ChipRuns]) -> Devices:
    """Return the common chips of two applications as devices; ``runs`` are those of the pair, in its order."""
    order = np.argsort(pair.apps)
    watts, time = (pair.median[:, order, QUANTITIES.index(q), :].transpose(1, 0, 2) for q in QUANTITIES)
    even, odd = HALVES.index("even"), HALVES.index("odd")
    highest = np.stack([_highest(runs[k], pair.chips) for k in order])
    apps = tuple(pair.apps[k] for k in order)
    return Devices(apps, watts[..., even], time[..., even], watts[..., odd], time[..., odd], highest)


def _highest(runs: ChipRuns, chips: tuple[str, ...]) -> Floats:
    """Return the highest watts of any run on each chip. Shape (chips,)."""
    found = np.zeros(len(runs.chips))
    np.maximum.at(found, runs.chip, runs.watts)
    return found[np.searchsorted(runs.chips, chips)]


JOBS = 600
WIDTHS, SHARES = np.array([1, 2, 4, 8, 16]), np.array([0.5, 0.2, 0.15, 0.1, 0.05])
"""Devices of a job, and shares of jobs: most ask for one, as on clusters of GPUs."""
MEDIAN_S, SIGMA = 1_200.0, 1.0
"""Lognormal run times on a device of mean speed."""
SHORTEST_S, LONGEST_S = 120.0, 14_400.0
ESTIMATE = (1.0, 3.0)
"""Users' limit over run time, drawn evenly."""


def draw_jobs(rng: np.random.Generator, apps: Sequence[str], units: int, load: float, jobs: int = JOBS) -> Jobs:
    """Draw jobs of some applications, in equal shares, that keep a part of the devices busy.

    Args:
        rng: Source of random draws.
        apps: Names of the applications.
        units: Number of devices.
        load: Device-seconds that are asked for over those that there are, at reference speed and without a budget.
        jobs: Number of jobs.
    """
    width = rng.choice(WIDTHS, jobs, p=SHARES)
    runtime = np.clip(rng.lognormal(np.log(MEDIAN_S), SIGMA, jobs), SHORTEST_S, LONGEST_S).round()
    length_s = float((width * runtime).sum()) / (load * units)
    return Jobs.build(
        np.sort(rng.uniform(0.0, length_s, jobs)).round(),
        width,
        runtime,
        walltime_s=(runtime * rng.uniform(*ESTIMATE, jobs)).round(),
        app=rng.choice(list(apps), jobs),
        origin="generated",
    )
