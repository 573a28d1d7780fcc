"""Energy of ended jobs from Slurm's own accounting (slurmdbd). No energy is no measurement, never zero."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from wattqueue.live.slurm.commands import Slurm, read
from wattqueue.live.telemetry.base import JobEnergy

FIELDS = "JobID,Submit,Start,End,NNodes,ConsumedEnergyRaw,State"
NO_ENERGY = 2**63
"""Slurm writes NO_VAL64 where a node's counter could not be read."""
ENDED = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE", "NODE_FAIL", "PREEMPTED"}
)


@dataclass
class SlurmEnergy:
    """Ended jobs through ``sacct``; right for whole nodes only (slurm.conf: AcctGatherEnergyType)."""

    slurm: Slurm
    name: str = "slurmdbd"

    def finished(self, since_s: float) -> Sequence[JobEnergy]:
        """Jobs that ended since then, in order of their ends. Raises SlurmError."""
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_s))
        text = read(self.slurm, ("sacct", "-n", "-P", "-X", "-a", "-S", since, "-E", "now", "-o", FIELDS))
        jobs = [job for line in text.splitlines() for job in [parse(line, self.name)] if job is not None]
        return sorted((job for job in jobs if job.end_s >= since_s), key=lambda job: (job.end_s, job.name))


def parse(line: str, source: str) -> JobEnergy | None:
    """One line of sacct; None for a job that has not ended or never started, and for lines that cannot be read."""
    parts = line.split("|")
    state = parts[-1].partition(" ")[0] if len(parts) == 7 else ""
    if state not in ENDED:
        return None
    try:
        submit, start, end = (float(parts[i]) for i in (1, 2, 3))
        nodes = int(parts[4])
        energy = float(parts[5]) if parts[5] else math.nan
    except ValueError:
        return None
    measured = math.isfinite(energy) and 0.0 < energy < NO_ENERGY
    return JobEnergy(parts[0], submit, start, end, nodes, energy if measured else math.nan, state, source)
