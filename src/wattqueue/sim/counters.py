"""What hardware counters would show of simulated jobs: the metrics of the application that a job really runs.

A simulation computes watts and run times and no instructions. Where EAR's metrics of the applications are known, this
is the measurement that the control ``app-check`` asks for: metrics at the job's frequency by equations 1 to 3 of
paper 1, disturbed by noise. It knows what a user does not say, and so belongs to the truth of a simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.model.jobs import Ints

if TYPE_CHECKING:
    from wattqueue.policy.view import View


@dataclass(frozen=True, slots=True)
class CounterNoise:
    """Coefficients of variation of what one node shows about a job; a job's figure is the mean over its nodes.

    Raises: InputError for a negative figure.
    """

    power: float = 0.034
    """Watts. Default: equal nodes under an equal load, 64 nodes of Emmy, published with ClusterCockpit."""
    cpi: float = 0.02
    """Cycles per instruction. The default is assumed."""
    tpi: float = 0.02
    """Memory transactions per instruction. The default is assumed."""

    def __post_init__(self) -> None:
        if not min(self.power, self.cpi, self.tpi) >= 0:
            raise InputError(f"must be 0 or more: {self}", where="noise of counters")


class SimulatedCounters:
    """Measure a running job, for ``AppCheck(measure=...)``.

    The noise of each job is drawn once, by its row: a measurement does not depend on when or how often it is taken.

    Args:
        real: Application that each job runs, as a row of the tables in ``metrics``. Shape (n,).
        nodes: Nodes of each job: independent nodes disturb a mean less. Shape (n,).
        metrics: Metrics of the applications at the nominal frequency, by partition.
        coefficients: EAR's coefficients, by partition.
        noise: What disturbs a measurement.
        rng: Source of the noise.

    Reference: paper 1, equations 1 to 3 and section 3.4.
    """

    def __init__(
        self,
        real: Ints,
        nodes: Ints,
        metrics: Mapping[str, Signatures],
        coefficients: Mapping[str, Coefficients],
        noise: CounterNoise,
        rng: np.random.Generator,
    ) -> None:
        self.real, self.metrics, self.coefficients = real, metrics, coefficients
        spread = np.array([noise.power, noise.cpi, noise.tpi])
        normal = rng.standard_normal((len(real), 3))
        # Watts, cycles and transactions are never negative, however wide the noise.
        self.factor = np.maximum(1.0 + normal * spread / np.sqrt(np.asarray(nodes, float))[:, np.newaxis], 0.01)

    def __call__(self, view: View, job: int) -> Signatures | None:
        """Return the metrics of one running job at its frequency; None in a partition without metrics."""
        option = view.job_option(job)
        p = int(view.machine.option_partition[option])
        name = view.machine.partitions[p].name
        if name not in self.metrics or name not in self.coefficients:
            return None
        row, table = self.real[job], self.coefficients[name]
        one = self.metrics[name].take(np.array([row]))
        seen = at_frequency(table, one, table.nominal_hz, float(view.machine.option_frequency_hz[option]))
        power, cpi, tpi = self.factor[job]
        return Signatures(seen.time_s, seen.power_w * power, seen.cpi * cpi, seen.tpi * tpi)
