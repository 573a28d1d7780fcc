"""Table 1 of paper 1 (D'Amico and Corbalan) as printed, and profiles from it alone.

The last column, delta t / delta f, is printed without a step: it is seconds per 0.1 GHz (ep.D on p1
has 48.2 s/GHz by the published coefficients and 5.67 here). The table says nothing about watts below
the nominal frequency: that slope is an **assumption**, ``relative_power``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.app_profiles import AppProfiles, HardwareProfile

Floats = NDArray[np.float64]

PARTITIONS = ("p1", "p2", "p3")
NAMES = ("lu.C", "ep.D", "bt-mz.C", "sp-mz.C", "lu-mz.C", "ua.C", "DGEMM", "STREAM")
APPS = ("1", "2", "3", "4", "5", "6", "7", "8")
STREAM = "8"

# Section 5: highest and lowest frequency (GHz) of the Platinum 8168, Gold 6254 and Gold 6148.
HIGHEST_GHZ = (2.7, 3.1, 2.4)
LOWEST_GHZ = (1.2, 1.2, 1.0)
NODES = 512

# Table 1, columns by partition, rows by application.
CPI = np.array(
    [
        (0.67, 0.66, 0.57),
        (0.60, 0.60, 0.60),
        (0.38, 0.39, 0.38),
        (0.44, 0.50, 0.42),
        (0.62, 0.62, 0.63),
        (0.99, 0.95, 0.87),
        (0.40, 0.40, 0.38),
        (4.46, 3.67, 3.55),
    ]
)
RUNTIME_S = np.array(
    [
        (52.49, 57.45, 62.78),
        (64.20, 74.20, 86.59),
        (43.95, 51.32, 57.70),
        (46.05, 59.76, 58.58),
        (59.21, 61.41, 65.98),
        (46.96, 53.11, 54.51),
        (47.40, 52.60, 61.97),
        (107.55, 81.43, 110.34),
    ]
)
POWER_W = np.array(
    [
        (386.0, 367.0, 331.25),
        (349.0, 337.0, 290.32),
        (417.0, 411.0, 342.73),
        (460.0, 427.0, 375.47),
        (355.0, 360.0, 308.81),
        (368.0, 360.0, 324.6),
        (491.0, 497.0, 366.25),
        (381.0, 365.0, 330.52),
    ]
)
SLOPE_S_PER_100MHZ = np.array(
    [
        (2.38, 2.87, 4.18),
        (5.67, 6.37, 8.97),
        (3.52, 4.05, 5.65),
        (3.07, 3.34, 4.64),
        (4.75, 4.70, 6.33),
        (1.74, 1.84, 2.64),
        (3.29, 3.08, 4.09),
        (0.16, 0.06, 0.13),
    ]
)

# The assumption on watts: a share of the nominal watts does not fall with the frequency, the rest falls
# as (f/f_nominal)^2.42. The share is 0.63 for an application whose time does not scale with frequency
# and 0.40 for one that scales fully. Fitted once to the 16 curves that the published coefficients of p1
# and p2 give (mean error 2.8 % of nominal watts, greatest 7.4 %); nothing is known of p3.
FIXED_SHARE = 0.632
SCALING_SHARE = 0.228
POWER_EXPONENT = 2.42


def scaling(partition: int) -> Floats:
    """Return the sensitivity of run time to frequency: 0 for none, 1 for time proportional to 1/f. Shape (8,)."""
    high, low = HIGHEST_GHZ[partition], LOWEST_GHZ[partition]
    stretch = SLOPE_S_PER_100MHZ[:, partition] * (high - low) * 10 / RUNTIME_S[:, partition]
    share: Floats = np.minimum(stretch / (high / low - 1.0), 1.0)
    return share


def relative_power(x: Floats, beta: Floats) -> Floats:
    """Return assumed watts relative to nominal at ``x = f/f_nominal`` (F,) for sensitivity ``beta`` (A,).

    Shape (A, F).
    """
    fixed = (FIXED_SHARE - SCALING_SHARE * beta)[:, np.newaxis]
    curve: Floats = fixed + (1.0 - fixed) * x**POWER_EXPONENT
    return curve


def relative_time(frequency_ghz: Floats, partition: int) -> Floats:
    """Return run time relative to nominal: linear in 1/f, as eq. 3 is with a CPI linear in f. Shape (8, F).

    Exact at the highest and the lowest frequency, between which Table 1 gives the mean slope.
    """
    high, low = HIGHEST_GHZ[partition], LOWEST_GHZ[partition]
    total = SLOPE_S_PER_100MHZ[:, partition] * (high - low) * 10 / RUNTIME_S[:, partition]
    shape = (1 / frequency_ghz - 1 / high) / (1 / low - 1 / high)
    curve: Floats = 1.0 + total[:, np.newaxis] * shape
    return curve


def table1_profiles(partitions: tuple[str, ...] = PARTITIONS) -> AppProfiles:
    """Return profiles of the eight applications from Table 1 alone, every 0.1 GHz.

    Watts below nominal are assumed (``relative_power``): the table has none.

    Reference: paper 1, Table 1 and section 5.
    """
    hardware = {}
    for name in partitions:
        p = PARTITIONS.index(name)
        steps = round((HIGHEST_GHZ[p] - LOWEST_GHZ[p]) * 10)
        ghz = np.round(HIGHEST_GHZ[p] - 0.1 * np.arange(steps + 1), 1)
        time = RUNTIME_S[:, p, np.newaxis] * relative_time(ghz, p)
        power = POWER_W[:, p, np.newaxis] * relative_power(ghz / HIGHEST_GHZ[p], scaling(p))
        hardware[name] = HardwareProfile(np.round(ghz * 1e9), power, time)
    return AppProfiles(APPS, hardware, "Table 1 of the paper (slope of watts assumed)")
