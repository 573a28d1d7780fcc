"""Runs of one application on many chips, as the PAL data set has them: time, clock, temperature and watts of each run.

One row per run: ``uuid`` (the chip), ``perf`` (milliseconds of a kernel or an iteration), ``freq`` (MHz), ``temp`` (C),
``pwr`` (W), perhaps ``mean_pwr`` (W, mean over the run), which is taken where it exists. Other columns are not read.

A pair is two applications on the chips that both ran on: medians of each chip, over all runs and over even and odd
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.model.jobs import Floats
from wattqueue.model.unit_table import UnitTable

COLUMNS = ("uuid", "perf", "freq", "temp", "pwr")
"""Columns that a file must have."""
MEAN_POWER = "mean_pwr"


@dataclass(frozen=True, slots=True, eq=False)
class ChipRuns:
    """Runs of one application. Shapes (n,), runs of a chip in the order of the file.

    Attributes:
        app: The application.
        chips: Names of the chips, sorted.
        chip: Position of each run's chip in ``chips``.
        time_s: Seconds of a kernel or an iteration.
        watts: Mean watts of the run where recorded, else a sample.
        clock_hz: Clock.
        temperature_c: Temperature.
    """

    app: str
    chips: tuple[str, ...]
    chip: NDArray[np.int64]
    time_s: Floats
    watts: Floats
    clock_hz: Floats
    temperature_c: Floats


def read_chip_runs(path: Path, app: str | None = None) -> ChipRuns:
    """Return the runs of a file (CSV, also gzipped); the application's name is that of the file unless given.

    Raises: InputError naming file, line and column for missing columns, a run without a chip, and a time or watts that
    are not above 0.

    Reference: PAL, Jain et al., SC 2024; data of hal-uw/blox-pal (MIT).
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS), (*COLUMNS[1:], MEAN_POWER))
    watts = frame[MEAN_POWER if MEAN_POWER in frame.columns else "pwr"].to_numpy()
    time_ms = frame["perf"].to_numpy()
    usable = (
        UNIT_W.holds(watts) & (watts > 0) & DURATION_S.holds(time_ms / 1e3) & frame["uuid"].is_not_null().to_numpy()
    )
    csv_records.require_rows(path, usable, "a run without chip, or with time or watts that are none")
    if not len(frame):
        raise InputError("no runs", where=path, hint="one row per run")
    names, chip = np.unique(frame["uuid"].to_numpy().astype(str), return_inverse=True)
    name = app or path.name.partition(".")[0]
    clock_hz, temperature_c = frame["freq"].to_numpy() * 1e6, frame["temp"].to_numpy()
    return ChipRuns(name, tuple(names.tolist()), chip, time_ms / 1e3, watts, clock_hz, temperature_c)


FEWEST_CHIPS = 16
"""Common chips below which a rank correlation shows nothing."""
QUANTITIES = ("watts", "time")
HALVES = ("all", "even", "odd")
"""Which runs of a chip a median is over; a chip with one run has it in all three."""


@dataclass(frozen=True, slots=True, eq=False)
class ChipPair:
    """Two applications on common chips.

    Attributes:
        apps: Their names.
        chips: The common chips.
        median: Medians by chip. Shape (chips, 2 applications, 2 quantities, 3 halves).
    """

    apps: tuple[str, str]
    chips: tuple[str, ...]
    median: Floats

    def column(self, app: int, quantity: str, half: str = "all") -> int:
        """Return the column of a quantity in ``flat``."""
        return (app * len(QUANTITIES) + QUANTITIES.index(quantity)) * len(HALVES) + HALVES.index(half)

    def known(self, app: int) -> tuple[str, ...]:
        """Return the quantities that were measured of an application."""
        return tuple(q for k, q in enumerate(QUANTITIES) if not np.isnan(self.median[:, app, k]).any())

    @property
    def repeated(self) -> bool:
        """Return whether some chip ran each application more than once, so that halves of its runs differ."""
        even, odd = (self.median[..., HALVES.index(half)] for half in HALVES[1:])
        differs = (np.nan_to_num(even) != np.nan_to_num(odd)).any(axis=2)
        return bool(differs.any(axis=0).all())

    @property
    def flat(self) -> Floats:
        """Return all medians, one row per chip, as resampling takes them. Shape (chips, 12)."""
        return self.median.reshape(len(self.chips), -1)


def chip_pair(first: ChipRuns, second: ChipRuns) -> ChipPair:
    """Return two applications on their common chips.

    Raises: InputError for too few common chips.
    """
    chips = tuple(sorted(set(first.chips) & set(second.chips)))
    if len(chips) < FEWEST_CHIPS:
        raise InputError(f"{len(chips)} common chips, fewer than {FEWEST_CHIPS}", where=f"{first.app} and {second.app}")
    median = np.stack([_of_chips(runs, chips) for runs in (first, second)], axis=1)
    return ChipPair((first.app, second.app), chips, median)


def chip_medians(runs: ChipRuns, half: str = "all") -> tuple[Floats, Floats]:
    """Return median watts and time of each chip over some of its runs. Shapes (chips,)."""
    rows = [_half(np.flatnonzero(runs.chip == k), half) for k in range(len(runs.chips))]
    return (
        np.array([np.median(runs.watts[at]) for at in rows]),
        np.array([np.median(runs.time_s[at]) for at in rows]),
    )


def measured_table(runs: Sequence[ChipRuns]) -> UnitTable:
    """Return the measured unit factors of all applications: median watts by chip, over their mean over chips."""
    units = sorted({chip for one in runs for chip in one.chips})
    watts = np.full((len(runs), len(units)), np.nan)
    for k, one in enumerate(runs):
        watts[k, np.searchsorted(units, one.chips)] = chip_medians(one)[0]
    return UnitTable.of_watts([one.app for one in runs], units, watts)


def _of_chips(runs: ChipRuns, chips: tuple[str, ...]) -> Floats:
    """Return the medians of some chips. Shape (chips, 2, 3)."""
    at = np.searchsorted(runs.chips, chips)
    found: Floats = np.stack([np.stack([m[at] for m in chip_medians(runs, half)], axis=1) for half in HALVES], axis=2)
    return found


def _half(rows: NDArray[np.int64], half: str) -> NDArray[np.int64]:
    """Return a chip's runs of a half, in the order of the file."""
    if half == "all" or len(rows) < 2:
        return rows
    return rows[::2] if half == "even" else rows[1::2]
