"""CoMD, Lulesh and MP2C: watts and time against frequency, of the shape of Figures 3 and 4 of paper 3.

The paper prints the curves as pictures only. Its text says three things, which hold here: Lulesh draws the most at
every frequency, so its figures are what both policies predict for every job; a higher frequency is always faster and
always draws more (all points are Pareto points); and jobs may run between 2.2 and 2.8 GHz (bull) or 1.0 and 1.6 GHz
(Mont-Blanc). **Assumed** are the figures themselves. A unit of an application draws::

    watts(f) = idle + (peak * max_w - idle) (f / f_ref)**alpha       time(f) = beta (f_ref / f - 1) + 1

with ``max_w`` the machine's maximum, which is Lulesh's at the highest frequency. CoMD (molecular dynamics) is bound by
computing, Lulesh (hydrodynamics on an unstructured mesh) in part by memory, MP2C (particles and fluid) by memory and
communication; hence the order of the exponents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine

BULL_HZ = (2.2e9, 2.8e9)
"""Frequencies that jobs may run at on bull, lowest and highest (section 5.1)."""
MONTBLANC_HZ = (1.0e9, 1.6e9)
"""Likewise on the Mont-Blanc prototype."""


@dataclass(frozen=True, slots=True)
class MiniApp:
    """One mini-application; all figures are assumed.

    Attributes:
        name: Its name.
        peak: Watts at the highest frequency relative to the unit's maximum.
        alpha: Exponent of the watts above idle in frequency.
        beta: Sensitivity of run time to frequency: 0 none, 1 fully bound by computing.
    """

    name: str
    peak: float
    alpha: float
    beta: float


COMD = MiniApp("comd", 0.88, 2.0, 0.9)
LULESH = MiniApp("lulesh", 1.0, 2.0, 0.75)
MP2C = MiniApp("mp2c", 0.76, 2.0, 0.6)
APPS = (COMD, LULESH, MP2C)
"""The three mini-applications."""


def watts_by_option(machine: Machine, app: MiniApp) -> Floats:
    """Return the watts of one unit of an application at every option of a machine, NaN without a maximum. Shape (O,).

    A figure below the idle watts counts as idle watts.
    """
    found = np.full(len(machine.option_partition), np.nan)
    for p, part in enumerate(machine.partitions):
        if part.max_w is not None:
            above = max(app.peak * part.max_w - part.idle_w, 0.0)
            of = machine.option_partition == p
            found[of] = part.idle_w + above * _relative(machine)[of] ** app.alpha
    return found


def time_by_option(machine: Machine, app: MiniApp) -> Floats:
    """Return the run time of an application at every option relative to the highest frequency. Shape (O,)."""
    found: Floats = app.beta * (1.0 / _relative(machine) - 1.0) + 1.0
    return found


def exponent_that_admits(cap_share: float, idle_share: float, frequency_share: float) -> float:
    """Return the least ``alpha`` at which a job on the whole machine fits under a cap at its lowest frequency.

    The cap, the idle watts and the frequency are shares of the maximum, of the maximum and of the highest frequency.
    Infinite where idle watts alone exceed the cap, 0 where the job fits at the highest frequency.
    """
    if cap_share >= 1.0:
        return 0.0
    if idle_share >= cap_share:
        return math.inf
    return math.log((cap_share - idle_share) / (1.0 - idle_share)) / math.log(frequency_share)


def _relative(machine: Machine) -> Floats:
    """Return each option's frequency relative to the highest of its partition; 1 where none is stated. Shape (O,)."""
    highest = machine.option_frequency_hz[machine.option_start[:-1]][machine.option_partition]
    return np.nan_to_num(machine.option_frequency_hz / highest, nan=1.0)
