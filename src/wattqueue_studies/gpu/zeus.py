"""Measurements of Zeus: training workloads on one GPU at several power limits, in CSV.

A row is a workload (dataset, network, batch size, optimizer) at a limit: seconds an epoch and mean watts. Each cell was
measured once. The files are those of ml-energy/zeus (You, Chung, Chowdhury, NSDI 2023), Apache-2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.model.gpu_limits import LimitedRun

NAMES = ("dataset", "network", "batch_size", "optimizer")
NUMBERS = ("power_limit", "time_per_epoch", "average_power")
Workload = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredGpu:
    """The workloads of one kind of GPU.

    Attributes:
        name: What tables call it: the file's name without ``zeus_``.
        runs: Watts and times of each workload, limits rising.
    """

    name: str
    runs: dict[Workload, LimitedRun]

    @property
    def greatest_w(self) -> float:
        """Return the greatest limit of any workload, which stands for the rated power."""
        return max(float(run.limit_w[-1]) for run in self.runs.values())


def read_zeus(path: Path) -> MeasuredGpu:
    """Return the measurements of a file.

    Raises: InputError naming file and line for missing columns, names or figures, and a limit that a workload has
    twice; and for a workload with fewer than three limits.
    """
    frame, _ = csv_records.read(path, csv_records.having((*NAMES, *NUMBERS)), NUMBERS)
    named = [frame[name].cast(str).fill_null("").to_list() for name in NAMES]
    csv_records.require_rows(path, _all_named(named), "a name is missing")
    for name, bound in zip(NUMBERS, (UNIT_W, DURATION_S, UNIT_W), strict=True):
        column = frame[name].to_numpy()
        good = bound.holds(column) & (column > 0)
        csv_records.require_rows(path, good, f"{name} is missing, 0 or outside {bound.text}")
    rows: dict[Workload, list[int]] = {}
    for k, key in enumerate(zip(*named, strict=True)):
        rows.setdefault(key, []).append(k)
    limit, seconds, watts = (frame[name].to_numpy() for name in NUMBERS)
    runs: dict[Workload, LimitedRun] = {}
    for key, own in rows.items():
        own.sort(key=lambda k: float(limit[k]))
        if len(own) < 3 or len({float(limit[k]) for k in own}) < len(own):
            what = f"{' '.join(key)} has {len(own)} limits, of which {len({float(limit[k]) for k in own})} differ"
            raise InputError(what, where=path, hint="three limits at least, each once: two to fit, others to predict")
        runs[key] = LimitedRun(limit[own].copy(), watts[own].copy(), seconds[own].copy())
    return MeasuredGpu(path.name.partition(".")[0].removeprefix("zeus_"), runs)


def _all_named(columns: list[list[str]]) -> NDArray[np.bool_]:
    return np.array([all(cells) for cells in zip(*columns, strict=True)], np.bool_)
