"""Two applications on the chips that both ran on: medians of each chip, over all runs and over even and odd ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.unit_table import UnitTable
from wattqueue_studies.chips.chip_runs import ChipRuns

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
