"""LightESP: the 230 jobs of the ESP benchmark in its 14 classes, for a machine of any size (paper 3, section 5.1).

Each class has a share of the machine, a number of jobs and a run time; the two jobs of class Z take the whole
machine. The mix and the times are those of ESP (Wong et al. 2000, 10.1109/SC.2000.10006). **Unverified**: they are
given from memory, only their number, 230, is in paper 3; and LightESP is read in two ways, which the option ``divide``
chooses: 12 for about a twelfth of ESP's times (the whole test then takes a quarter of an hour on an ideal
scheduler), 1 for ESP's own.

Not published for paper 3, and assumed: the order is drawn at random; ``first`` jobs are there at second 0, the others
follow at even intervals until the work that was submitted is ``load`` times what the machine can do in that time, the
two jobs of class Z after a third and two thirds of the jobs; users request the run time times ``accuracy``; the three
mini-applications have equal shares.

Run times are at the highest frequency. Watts are not part of the workload: they follow from the machine and the
application's curves (``workload/lightesp.py``).

CoMD, Lulesh and MP2C: watts and time against frequency, of the shape of Figures 3 and 4 of paper 3.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.workload.limits import require, require_span


class EspClass(NamedTuple):
    """A class of jobs: share of the machine, number of jobs, seconds in ESP."""

    name: str
    share: float
    jobs: int
    runtime_s: float


CLASSES = (
    EspClass("A", 0.03125, 75, 267.0),
    EspClass("B", 0.0625, 9, 322.0),
    EspClass("C", 0.5, 3, 534.0),
    EspClass("D", 0.25, 3, 616.0),
    EspClass("E", 0.5, 3, 315.0),
    EspClass("F", 0.0625, 9, 1846.0),
    EspClass("G", 0.125, 6, 1334.0),
    EspClass("H", 0.1582, 6, 1067.0),
    EspClass("I", 0.03125, 24, 1432.0),
    EspClass("J", 0.0625, 24, 725.0),
    EspClass("K", 0.0957, 15, 487.0),
    EspClass("L", 0.125, 36, 366.0),
    EspClass("M", 0.25, 15, 187.0),
    EspClass("Z", 1.0, 2, 100.0),
)
"""The mix of ESP; the shares of a class are rounded to whole units of the machine, at least one."""
DIVIDE = 12.0
"""ESP's run times over those of LightESP (unverified)."""
FIRST = 50
"""Jobs that are there at second 0 (assumed)."""
LOAD = 2.0
"""Work over what the machine can do between the first submission and the last (assumed)."""
ACCURACY = 1.5
"""Requested time over run time (assumed)."""


def generate(
    rng: np.random.Generator,
    *,
    nodes: int = 520,
    divide: float = DIVIDE,
    load: float = LOAD,
    first: int = FIRST,
    accuracy: float = ACCURACY,
) -> Jobs:
    """Generate the 230 jobs for a machine of ``nodes`` units.

    Args:
        rng: Order of the jobs, and their applications.
        nodes: Units of the machine: cores, on the machines of paper 3.
        divide: ESP's run times are divided by this.
        load: Work over what the machine can do between the first submission and the last.
        first: Jobs that are submitted at second 0.
        accuracy: Requested time over run time.

    Raises: InputError for an option out of its range.
    """
    check(nodes=nodes, divide=divide, load=load, first=first, accuracy=accuracy)
    kind = np.repeat(np.arange(len(CLASSES)), [c.jobs for c in CLASSES])
    kind = _in_order(rng.permutation(kind[kind != len(CLASSES) - 1]))
    size = np.maximum(np.rint(np.array([c.share for c in CLASSES]) * nodes), 1.0)[kind].astype(np.int32)
    runtime_s = np.array([c.runtime_s for c in CLASSES])[kind] / divide
    rest = np.maximum(np.arange(len(kind)) - first + 1, 0)
    span_s = require_span(float(size @ runtime_s) / (load * nodes), "lightesp")
    app = rng.permutation(np.arange(len(kind)) % len(APPS)).astype(np.int32)
    return Jobs.build(
        span_s * rest / max(1, int(rest.max())),
        size,
        runtime_s,
        walltime_s=accuracy * runtime_s,
        app=Labels(app, tuple(a.name for a in APPS)),
        origin="generated",
        extra={"esp_class": np.array([c.name for c in CLASSES])[kind]},
    )


def check(
    *, nodes: int = 520, divide: float = DIVIDE, load: float = LOAD, first: int = FIRST, accuracy: float = ACCURACY
) -> None:
    """Check the options of ``generate`` without generating. Raises: InputError."""
    require(nodes=nodes, divide=divide, load=load, first=first, accuracy=accuracy)


def _in_order(others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the classes in the order of submission: those of class Z come at 1/3 and 2/3 of the jobs."""
    places = [len(others) // 3, 2 * len(others) // 3]
    return np.insert(others, places, len(CLASSES) - 1)


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
