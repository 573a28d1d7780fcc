"""What perf, mpstat and RAPL would have shown of a run: counters at 1 s, watts at 100 ms, with noise.

Noise stands for what limits real recordings: counters that share hardware, the reading of RAPL, and the operating
system's own work. The models see recordings only; errors are scored against true watts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace
from wattqueue_studies.variability.codes import COUNTER_S, SAMPLE_S, Code, activity, kernels
from wattqueue_studies.variability.physics import Chips, socket_watts

COUNTER_SD = 0.01
"""Relative noise of a counter over one second, and of active cores."""
RAPL_SD_W = 0.5
"""Noise of a sample of RAPL over 100 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelRecordings:
    """Recordings of all training kernels on S sockets, one after the other.

    Attributes:
        level: Activity, recorded once: it is the same on all sockets. Shape (n, 9).
        watts: Watts of each socket. Shape (n, S).
        rows: Rows of each kernel.
    """

    level: Floats
    watts: Floats
    rows: Mapping[str, slice]

    def mean_w(self, kernel: str) -> Floats:
        """Return the mean watts of a kernel on each socket, as a benchmark of eq. 2. Shape (S,)."""
        found: Floats = self.watts[self.rows[kernel]].mean(axis=0)
        return found


def recorded_activity(rng: np.random.Generator, code: Code, kind: int = 0, process: int = 0) -> ActivityTrace:
    """Return the activity of one process as counters show it, second by second."""
    level = activity(code, kind).seconds()
    noisy = level * (1.0 + COUNTER_SD * rng.standard_normal(level.shape))
    return ActivityTrace(code.name, COUNTER_S * np.arange(1.0, len(level) + 1.0), noisy, process)


def recorded_watts(rng: np.random.Generator, code: Code, chips: Chips, kind: int = 0) -> Floats:
    """Return the watts that RAPL shows on every socket, second by second. Shape (seconds, S)."""
    per = round(COUNTER_S / SAMPLE_S)
    watts, _ = socket_watts(code, chips, kind)
    means = watts.reshape(-1, per, watts.shape[1]).mean(axis=1)
    found: Floats = means + RAPL_SD_W / np.sqrt(per) * rng.standard_normal(means.shape)
    return found


def record_kernels(rng: np.random.Generator, chips: Chips) -> KernelRecordings:
    """Run the eleven training kernels on every socket."""
    level, watts, rows, at = [], [], {}, 0
    for name, code in kernels().items():
        trace = recorded_activity(rng, code)
        level.append(trace.level)
        watts.append(recorded_watts(rng, code, chips))
        rows[name] = slice(at, at + len(trace.level))
        at += len(trace.level)
    return KernelRecordings(np.concatenate(level), np.concatenate(watts), rows)
