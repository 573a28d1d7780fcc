"""Algorithm 1 of paper 3 by itself: how far one step, as printed, lets the sum of the caps grow.

Each draw is one step of 52 sockets (bull) under caps of equal height that sum to the budget. What a socket would draw
without a cap is uniform between two shares of its cap; it draws no more than the cap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_redistribution import redistribute, redistribute_as_printed
from wattqueue.report.document import Table

SOCKETS = 52
"""Sockets of bull (section 3.2)."""
BUDGET_W = 4200.0
"""Cap of bull (section 5.2)."""
DEMANDS = ((0.2, 1.0), (0.5, 1.3), (0.2, 1.8), (0.8, 1.6))
"""Lowest and highest demand of a socket, as shares of its cap. The first never reaches a cap."""
DRAWS = 1000
"""Steps drawn for each demand."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What a step does to the sum of the caps, over draws of one demand.

    Attributes:
        demand: Lowest and highest demand, as shares of the cap.
        printed_percent: Share of the draws in which the printed lines let the sum grow.
        printed_mean: Mean change of the sum by the printed lines, in per cent.
        printed_most: Its greatest growth, in per cent.
        corrected_percent: Share of the draws in which the corrected lines let the sum grow.
        corrected_most: Its greatest growth, in per cent.
    """

    demand: tuple[float, float]
    printed_percent: float
    printed_mean: float
    printed_most: float
    corrected_percent: float
    corrected_most: float


def growth(demand: tuple[float, float], draws: int, rng: np.random.Generator) -> Growth:
    """Return what one step does to the sum of the caps. Raises: InputError for no draw."""
    if draws < 1:
        raise InputError("no draw", where="draws", hint="1 or more")
    cap = np.full(SOCKETS, BUDGET_W / SOCKETS)
    printed, corrected = np.empty(draws), np.empty(draws)
    for k in range(draws):
        power = np.minimum(cap * rng.uniform(*demand, SOCKETS), cap)
        printed[k] = redistribute_as_printed(power, cap).sum() / BUDGET_W - 1.0
        corrected[k] = redistribute(power, cap).sum() / BUDGET_W - 1.0
    figures = (_grown(printed), 100 * float(printed.mean()), 100 * float(printed.max()))
    return Growth(demand, *figures, _grown(corrected), 100 * float(corrected.max()))


def growth_table(draws: int = DRAWS, seed: int = 1) -> tuple[Table, list[Growth]]:
    """Return the table of all demands, and its figures."""
    rng = np.random.default_rng(seed)
    found = [growth(demand, draws, rng) for demand in DEMANDS]
    rows = [
        [
            f"{g.demand[0]:g} to {g.demand[1]:g} of the cap",
            f"{g.printed_percent:.0f}",
            f"{g.printed_mean:+.1f}",
            f"{g.printed_most:+.1f}",
            f"{g.corrected_percent:.0f}",
            f"{g.corrected_most:+.1f}",
        ]
        for g in found
    ]
    heads = (
        "demand",
        "printed:\ngrows in %",
        "mean\n% a step",
        "most\n% a step",
        "corrected:\ngrows in %",
        "most\n% a step",
    )
    title = f"Algorithm 1: sum of the caps of {SOCKETS} sockets after one step, {draws:,} draws of each demand"
    note = "As printed, sockets that are raised get more than others give, wherever demand reaches the caps."
    return Table(heads, rows, title, note, key="algorithm"), found


def _grown(change: Floats) -> float:
    """Return the per cent of draws in which a sum grows by more than rounding."""
    return 100.0 * float((change > 1e-9).mean())
