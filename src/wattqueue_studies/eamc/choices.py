"""What EAMC chooses for each application before any job is queued: frequencies, partitions, energies.

These tables need no simulation: they check the reading of equations 4 and 5 and of Table 1 by themselves, before
queues and backfilling add their own effects.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.eamc_table1 import APPS
from wattqueue.model.jobs import Jobs
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.efficiency import choose, part_eff
from wattqueue.parts.order.priority_inc_v import PriorityIncV
from wattqueue_studies.eamc.workloads import System

Floats = NDArray[np.float64]

WEIGHTS = (1.0, 1.5)
"""Values of t_weight in the paper."""
SHARES = (13, 33, 50)
"""Per cent of jobs that run application 8; 13 is the even draw of all eight."""


def share_of_stream(share: int) -> float:
    """Return the exact share of application 8: an even draw of eight where the paper prints 13 %."""
    return 1 / len(APPS) if share == 13 else share / 100


def application_rows(system: System) -> Prediction:
    """Return watts and time factors of the eight applications, one row each. Shapes (8, options)."""
    one_each = Jobs.build(np.zeros(8), np.ones(8), np.ones(8), app=list(APPS))
    return system.predict(one_each)


def frequency_rows(system: System, partition: str) -> list[dict[str, Any]]:
    """Return least-energy, fastest and best frequency of each application on one partition, for both weights.

    Args:
        system: Machine and profiles.
        partition: Name of the partition.

    Reference: paper 1, eq. 4.
    """
    prediction, machine = application_rows(system), system.machine
    p = system.partitions.index(partition)
    ghz = np.round(machine.option_frequency_hz / 1e9, 3)
    names = ("app", "partition", "t_weight", "min_energy_ghz", "min_time_ghz", "best_ghz")
    rows = []
    for weight in WEIGHTS:
        costs = ("energy", "time", "distance")
        chosen = [ghz[choose(prediction, machine, cost, weight).option[:, p]].tolist() for cost in costs]
        for app, *of_app in zip(APPS, *chosen, strict=True):
            rows.append(dict(zip(names, (int(app), partition, weight, *of_app), strict=True)))
    return rows


def partition_rows(system: System) -> list[dict[str, Any]]:
    """Return part_eff of each application on each partition and which partition is best, for both weights.

    part_eff is the distance of a partition's best option from the best over all partitions, in weighted energy and
    time; 0 would be optimal in both.

    Reference: paper 1, eq. 5.
    """
    rows = []
    for weight in WEIGHTS:
        efficiency = part_eff(choose(application_rows(system), system.machine, "distance", weight), weight)
        for app, row in zip(APPS, efficiency.tolist(), strict=True):
            of_partition = dict(zip(system.partitions, row, strict=True))
            best = min(of_partition, key=lambda name: of_partition[name])
            rows.append({"app": int(app), "t_weight": weight, "part_eff": of_partition, "best": best})
    return rows


def energy_ratios(system: System) -> list[dict[str, Any]]:
    """Return energies of the policies over one another without scheduling, for the three shares of STREAM.

    Assumes that every job has the same run time on p1 at its highest frequency, and that half of each application's
    jobs run on each partition (min-runtime, min-energy), or all on the best (base-slurm, eamc-priority-inc).
    """
    prediction, machine = application_rows(system), system.machine
    best = choose(prediction, machine, "distance")
    favoured = np.argmin(part_eff(best, 1.0), 1)
    each = np.arange(len(APPS))
    joules = prediction.power_w * prediction.time_factor
    of_app = {
        "min-runtime": _halves(joules, choose(prediction, machine, "time").option),
        "min-energy": _halves(joules, choose(prediction, machine, "energy").option),
        "base-slurm": joules[each, machine.option_start[:-1][favoured]],
        "eamc-priority-inc": joules[each, best.option[each, favoured]],
    }
    rows = []
    for share in SHARES:
        stream = share_of_stream(share)
        weight = np.array([(1 - stream) / 7] * 7 + [stream])  # STREAM is the last of eight applications
        total = {name: float(values @ weight) for name, values in of_app.items()}
        for a, b in permutations(total, 2):
            rows.append({"share": share, "numerator": a, "denominator": b, "value": total[a] / total[b]})
    return rows


def _halves(joules: Floats, option: NDArray[np.int32]) -> Floats:
    """Return the mean over partitions of each application's energy at the chosen options. Shape (A,)."""
    mean: Floats = np.take_along_axis(joules, option, 1).mean(1)
    return mean


def threshold_rows(system: System, threshold: float = 0.35) -> list[dict[str, Any]]:
    """Return which applications each reading of "35 % from the optimal part_eff" puts at the end of the queue.

    The text leaves open whether the distance is relative or absolute; the published code uses other costs than the
    text. All readings that the sources allow are listed, so that a reader can see which one the paper's "number 2
    alone" needs.
    """
    prediction, machine = application_rows(system), system.machine
    rows = []
    for reading, distance in (("text", "relative"), ("text", "absolute"), ("published-code", "absolute")):
        for weight in WEIGHTS if reading == "text" else (1.5,):
            efficiency = part_eff(choose(prediction, machine, "distance", weight, reading), weight, reading)
            part = PriorityIncV(t_weight=weight, reading=reading, threshold=threshold, distance=distance)
            worst, least = efficiency.max(1), efficiency.min(1)
            found = {"relative": (worst / least - 1).tolist(), "absolute": (worst - least).tolist()}
            beyond = [int(APPS[i]) for i in np.flatnonzero(part.beyond(efficiency).any(axis=1))]
            rows.append({"reading": reading, "distance": distance, "t_weight": weight, "apps": beyond, **found})
    return rows
