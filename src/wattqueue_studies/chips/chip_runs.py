"""Runs of one application on many chips, as the PAL data set has them: time, clock, temperature and watts of each run.

One row per run: ``uuid`` (the chip), ``perf`` (milliseconds of a kernel or an iteration), ``freq`` (MHz), ``temp`` (C),
``pwr`` (W), perhaps ``mean_pwr`` (W, mean over the run), which is taken where it exists. Other columns are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.model.jobs import Floats

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
