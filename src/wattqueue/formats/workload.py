"""What reading a workload gives, whatever its format: jobs, rows left out, and remarks of the reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs

MEASURED, ATTRIBUTED, MODELLED = "measured", "attributed", "modelled"
"""Quality of an energy figure.

Measured: metered while the job had its nodes alone. Attributed: metered on nodes that others shared, or may have
shared. Modelled: computed by a model.
"""
QUALITY, ALONE, ENERGY = "energy_quality", "alone", "energy_j"
"""Columns of ``jobs.extra``: quality (one of the above, or empty), whether a job ran alone (yes, no, unknown), joules
of the whole job.
"""
SOURCE, NODES_SEEN, ALL_NODES = "energy_from", "partition_nodes", "cluster_nodes"
"""Columns of ``jobs.extra``: the counter that the joules come from; how many different nodes were seen in the job's
partition, and in all.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A workload as read."""

    jobs: Jobs
    unusable: Unusable
    """Rows that were left out, with line and reason."""
    format: str
    """Name of the reader: one of ``read.FORMATS``."""
    rows: int
    """Rows that were read, usable or not."""
    notes: tuple[str, ...] = field(default=())
    """Remarks of the reader for the user, as sentences."""
    machine_units: int | None = None
    """Units of the machine that the trace was recorded on, where its file says so."""

    def summary(self) -> dict[str, Any]:
        """Return counts that describe the import.

        Keys: jobs, unusable, with watts or profile, alone on their nodes, and energy by quality; ``notes`` are the
        remarks.
        """
        jobs = self.jobs
        power = np.zeros(len(jobs), np.bool_)
        for column in (jobs.mean_power_w, jobs.max_power_w):
            if column is not None:
                power |= np.isfinite(column)
        alone, quality = _column(jobs, ALONE), _column(jobs, QUALITY)
        energy = jobs.extra.get(ENERGY)
        return {
            "format": self.format,
            "rows": self.rows,
            "jobs": len(jobs),
            "unusable": len(self.unusable),
            "with_power": int(power.sum()),
            "with_profile": 0 if jobs.profiles is None else int((jobs.profiles.pattern >= 0).sum()),
            **{f"alone_{word}": int((alone == word).sum()) for word in ("yes", "no", "unknown")},
            **{f"energy_{word}": int((quality == word).sum()) for word in (MEASURED, ATTRIBUTED, MODELLED)},
            "energy_j": float(np.nansum(energy)) if energy is not None else None,
            "notes": list(self.notes),
        }


def _column(jobs: Jobs, name: str) -> NDArray[Any]:
    """Return a column of ``jobs.extra``, empty texts where it is not there."""
    return jobs.extra.get(name, np.full(len(jobs), "", object))


def quality_labels(has_energy: NDArray[np.bool_], alone: NDArray[np.int8]) -> NDArray[Any]:
    """Return the quality of metered energies. Shape (n,).

    Measured only where the job is known to have been alone (``alone`` = 1); attributed where it shared nodes or
    this is unknown, since Slurm counts whole nodes; empty where no energy was counted.
    """
    words = np.array(["", ATTRIBUTED, MEASURED], object)
    return words[np.where(has_energy, np.where(alone == 1, 2, 1), 0)]


def alone_words(alone: NDArray[np.int8]) -> NDArray[Any]:
    """Return words for 1 (yes), 0 (no) and -1 (unknown). Shape (n,)."""
    return np.array(["no", "yes", "unknown"], object)[alone]
