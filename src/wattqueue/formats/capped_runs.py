"""Runs at wanted frequencies under power caps, as the GridPilot data set has them (36 runs on one V100).

One row per run: ``workload`` (the application), ``pcap_w`` (power cap, W), ``sm_target_mhz`` (wanted clock),
``sm_mean_mhz`` (mean clock), ``power_mean_w`` (W), ``iters_per_s``. Other columns are not read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattqueue.formats import csv_records
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.cap_response import CappedRuns

FIGURES = ("pcap_w", "sm_target_mhz", "sm_mean_mhz", "power_mean_w", "iters_per_s")
"""Columns of figures, all above 0."""


def read_capped_runs(path: Path) -> CappedRuns:
    """Return the runs of a file, in its order.

    Raises: InputError naming file, line and column for missing columns, and a figure that is not above 0.

    Reference: denisa-c/gridpilot (CC-BY-4.0).
    """
    frame, _ = csv_records.read(path, csv_records.having(("workload", *FIGURES)), FIGURES)
    cap_w, wanted, reached, power_w, speed = (frame[name].to_numpy() for name in FIGURES)
    usable = frame["workload"].is_not_null().to_numpy() & UNIT_W.holds(cap_w) & UNIT_W.holds(power_w)
    for column in (cap_w, wanted, reached, power_w, speed):
        usable &= np.isfinite(column) & (column > 0)
    csv_records.require_rows(path, usable, "a run without application, or with a figure that is none")
    return CappedRuns(
        frame["workload"].to_numpy().astype(str), cap_w, 1e6 * wanted, 1e6 * reached, power_w, 1.0 / speed
    )
