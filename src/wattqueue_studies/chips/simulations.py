"""All simulations on measured devices: under one budget, and under limits of each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattqueue_studies.chips import budgets, limits
from wattqueue_studies.chips.devices import Devices
from wattqueue_studies.frame.samples import Progress, Samples, sweep


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Figures of all runs, draw by draw.

    Attributes:
        budgets: One application under a budget, by policy.
        limits: Two applications under a limit of each device, by placement.
    """

    budgets: Samples
    limits: Samples

    @property
    def draws(self) -> int:
        """Return the number of draws."""
        return len(next(iter(self.budgets.values.values())))


def simulate_devices(
    pairs: Sequence[Devices], benchmarks: Sequence[str], draws: int, threads: int, progress: Progress | None = None
) -> Simulated:
    """Simulate every policy and placement on the devices of every pair.

    Args:
        pairs: Devices of each pair.
        benchmarks: The application of each pair by which one rank is made under limits of devices.
        draws: Draws of jobs and of the devices' numbers.
        threads: Simulations at a time.
        progress: Called with (finished, all) simulations of each of the two parts.
    """
    under_budget = {name: case for found in pairs for name, case in budgets.cases(found)}
    under_limit = {n: case for found, b in zip(pairs, benchmarks, strict=True) for n, case in limits.cases(found, b)}
    seeds = range(draws)
    return Simulated(
        sweep(budgets.DeviceBudget.draw, under_budget, budgets.POLICIES, seeds, threads=threads, progress=progress),
        sweep(limits.DeviceLimit.draw, under_limit, limits.POLICIES, seeds, threads=threads, progress=progress),
    )
