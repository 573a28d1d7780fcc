"""Views for tests of kernels that need one: an idle machine, and jobs with watts of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from wattqueue.kernels import state
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.build import PassSettings, build_view
from wattqueue.policy.consent_windows import Window


def view_with(
    nodes: ArrayLike, walls: ArrayLike, watts: ArrayLike, counts: Sequence[int], code: int
) -> state.KernelView:
    """Partitions of ``counts`` units without idle watts; job j may run in each, at ``watts[j]`` a unit."""
    n, partitions = np.size(nodes), len(counts)
    jobs = Jobs.build(np.arange(n, dtype=float), nodes, walls)
    machine = Machine("drawn", tuple(Partition(f"p{p}", count) for p, count in enumerate(counts)), "jobs")
    power = np.repeat(np.asarray(watts, np.float64)[:, np.newaxis], partitions, axis=1)
    job, part = (a.ravel().astype(np.int32) for a in np.meshgrid(np.arange(n), np.arange(partitions), indexing="ij"))
    window = Window(machine.option_start[part], machine.option_start[part])
    entries = Entries(job, part, np.zeros(n * partitions))
    prediction, settings = Prediction(power, np.ones_like(power)), PassSettings(code, 0, "jobs")
    return build_view(KnownJobs.of(jobs), machine, prediction, entries, window, settings)
