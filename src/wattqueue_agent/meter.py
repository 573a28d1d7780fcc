"""Watts of what can be limited: packages by RAPL's energy counters, GPUs by NVML. Doubt gives no reading.

NVML's watts are those of the last second. Where reads are further apart, the GPU's energy counter gives their mean.

A counter that stands still is no reading: a package in operation always draws something. One that may have wrapped more
than once, or holds no number, is none either; the controller then counts the maximum (rule 15 of docs/semantics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattqueue.live.telemetry.powercap import Counter, read_counter, said, zone_w
from wattqueue_agent.hardware import GpuLimit, RaplLimit
from wattqueue_agent.limits import Limit, LimitError

COUNTED_S = 2.0
"""Least time between two reads of a GPU's energy whose difference is used: its counter advances every 0.1 s."""


@dataclass
class PowerMeter:
    """Power between one read and the next, by name of the limit that covers it."""

    limits: Mapping[str, Limit]
    problems: tuple[str, ...] = ()
    _last: dict[str, tuple[float, Counter]] = field(default_factory=dict)
    _energies: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When the energy of GPUs was read, and the joules."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return what can be read: packages and GPUs."""
        return tuple(name for name, limit in self.limits.items() if isinstance(limit, (GpuLimit, RaplLimit)))

    def read(self, now_s: float) -> dict[str, float]:
        """Return the watts of each part that has a reading; ``problems`` says why others have none.

        ``now_s`` is a clock that never goes back. The first read gives no watts of packages.
        """
        watts: dict[str, float] = {}
        problems = []
        for name in self.names:
            try:
                found = self._one(self.limits[name], now_s)
            except (OSError, ValueError, LimitError) as error:
                self._last.pop(name, None)
                problems.append(f"{name}: {said(error)}")
                continue
            if found is not None:
                watts[name] = found
        self.problems = tuple(problems)
        return watts

    def _one(self, limit: Limit, now_s: float) -> float | None:
        """Return the watts of one part, None where there are none yet. Raises: ValueError for one without sense."""
        if isinstance(limit, GpuLimit):
            power_w = self._mean_w(limit, now_s) or limit.power_w()
            if not math.isfinite(power_w) or power_w <= 0:
                raise ValueError(f"reads {power_w} W")
            return power_w
        if not isinstance(limit, RaplLimit):
            return None
        before, now = self._last.get(limit.name), read_counter(limit.zone)
        if before is not None and now_s <= before[0]:
            return None
        self._last[limit.name] = now_s, now
        if before is None:
            return None
        found = zone_w(before[1], now, now_s - before[0])
        if found is None:
            raise ValueError("the counter wrapped more than once, or was set back")
        if found == 0:
            raise ValueError("the counter stands still")
        return found

    def _mean_w(self, gpu: GpuLimit, now_s: float) -> float:
        """Return the mean since the read before by the energy counter; 0 where it says nothing, or too little."""
        joules, (before_s, before_j) = gpu.energy_j(), self._energies.pop(gpu.name, (now_s, 0.0))
        if joules is None:
            return 0.0
        self._energies[gpu.name] = now_s, joules
        # a counter that was set back, as by a driver that was loaded again, is below what it was
        return max(0.0, joules - before_j) / (now_s - before_s) if now_s - before_s >= COUNTED_S else 0.0
