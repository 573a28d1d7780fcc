"""The site meter of an adaptive ledger: its readings, and what was learned (``kernels/site_meter.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.kernels._numba import referenced
from wattqueue.kernels.state.queue import Array

INF = float("inf")

# Slots of SiteMeter.figures.
PERIOD_S = 0
LATE = 1  # readings that come in between a reading and its use
NOISE = 2  # standard deviation of a reading, relative to its watts: of the simulated meter, and what is allowed for
ALLOWED_S = 3  # epsilon x window: seconds above the cap in a window
EPSILON = 4
OWN = 5  # variances of a chance ledger, for z = 1
COMMON = 6
FORGET_S = 7
LEAST_SHARE = 8
GAIN = 9
AIM = 10
CAUTION = 11
MOST = 12
BEGIN = 13
FIGURES = 14

# Slots of SiteMeter.state.
READ_AT = 0  # next reading; inf where there is no meter
SINCE_S = 1  # the reading before
ROW = 2  # row of the power series in force then
COUNT = 3  # readings so far
POWER_W = 4  # averages that forget: power, and the ledger
LEDGER_W = 5
Z = 6
SPENT_S = 7
SLOT = 8  # number of the part of the window under way
COUNTED_WS = 9  # what the ledger counted since the reading before, and until when
COUNTED_AT = 10
COUNTED_W2S = 11  # the same of the sum of squares
FIT_SHARE = 12  # share at which jobs fitted last
GREATEST = 13  # greatest deviation in the window
HELD = 14  # 1 where the margin held a job back at the end of the last instant
HELD_S = 15  # seconds since the reading before in which it did
LEDGER_W2 = 16  # averages that forget: variance of the ledger for z = 1, and of a reading by its noise
NOISE_W2 = 17
STATE = 18  # a new slot is appended: what controllers have stored is read by position

# Columns of SiteMeter.waiting; a new one is appended, too.
SPAN_S = 0
DRAWN_W = 1
COUNTED_W = 2
ABOVE_S = 3
LEARNS = 4
DEVIATION = 5
OF_LEDGER_W2 = 6
OF_NOISE_W2 = 7
COLUMNS = 8
UNKNOWN = -1.0
"""Stands in ``COUNTED_WS`` for a reading that teaches nothing but the time above the cap."""


@referenced
class SiteMeter(NamedTuple):
    """A meter of the whole machine's power, and what an adaptive ledger has learned by it."""

    figures: Array
    """float64 settings by slot."""
    state: Array
    """float64 by slot."""
    waiting: Array
    """(LATE + 1, 8) float64 readings that are not used yet: seconds, watts drawn and counted, seconds above the cap, 1
    where z is learned, deviation, variances of the ledger and of the noise."""
    spent_s: Array
    """(W,) float64 seconds above the cap in each part of the window."""
    greatest: Array
    """(W,) float64 greatest deviation in each part of the window."""
    cap_uw: Array
    """(1,) int64 highest cap since the reading before."""
    normal: Array
    """float64 standard normal numbers, of which the noise is drawn; empty for none."""


def new_meter(figures: Array, window_s: float, parts: int, rng: np.random.Generator | None) -> SiteMeter:
    """Return a meter that has read nothing.

    Args:
        figures: Settings by slot; ``ALLOWED_S`` is computed here. Shape (FIGURES,).
        window_s: Seconds of the window.
        parts: Parts of the window.
        rng: Source of the noise; None where there is none.
    """
    figures = figures.copy()
    figures[ALLOWED_S] = figures[EPSILON] * window_s
    state = np.zeros(STATE)
    state[[READ_AT, SINCE_S, Z, FIT_SHARE]] = -INF, -INF, figures[BEGIN], 1.0
    normal = rng.standard_normal(65_521) if rng is not None and figures[NOISE] > 0 else np.empty(0)
    waiting = np.zeros((int(figures[LATE]) + 1, COLUMNS))
    return SiteMeter(figures, state, waiting, np.zeros(parts), np.zeros(parts), np.zeros(1, np.int64), normal)


def no_meter() -> SiteMeter:
    """Return what stands for no meter."""
    figures = np.zeros(FIGURES)
    figures[PERIOD_S] = 1.0
    meter = new_meter(figures, 1.0, 1, None)
    meter.state[READ_AT] = INF
    return meter
