"""All limits of a node, by name."""

from __future__ import annotations

from pathlib import Path

from wattqueue_agent.cpufreq import frequency_limits
from wattqueue_agent.limits import Limit
from wattqueue_agent.nvml import gpu_limits
from wattqueue_agent.rapl import rapl_limits


def find_limits(powercap: Path, cpufreq: Path, *, gpus: bool) -> dict[str, Limit]:
    """Return what can be limited under two trees of /sys, and the GPUs if asked for.

    Raises: LimitError where a package is there and its limit cannot be read.
    """
    found: list[Limit] = [*rapl_limits(powercap), *frequency_limits(cpufreq), *(gpu_limits() if gpus else ())]
    return {limit.name: limit for limit in found}
