"""Read the energy of ended jobs from Slurm's own accounting (slurmdbd), to learn from.

Slurm adds up the energy of a job's nodes over its run, if an energy plugin measures it. The figure is not used to
control anything: it comes when the job has ended. It is right for whole nodes only, since the plugin measures nodes.

A job without energy was not measured; its energy is NaN, never zero. Slurm itself prints 0 (no plugin), an empty field,
or one of its "no value" numbers, depending on the release and on which node's counter failed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pwd import getpwnam

from wattqueue.live.slurm.commands import Slurm, read
from wattqueue.live.telemetry.base import JobEnergy

FIELDS = "JobID,Submit,Start,End,NNodes,ConsumedEnergyRaw,State,UID,Account,Partition"
NO_ENERGY = 2**63
"""From here on a figure is one of Slurm's 64-bit marks for "no value" (NO_VAL64, INFINITE64), which round up."""
NO_ENERGY_32 = (2.0**32 - 2, 2.0**32 - 1)
"""Its 32-bit marks (NO_VAL, INFINITE): written where a node's counter could not be read, and plausible as joules."""
ENDED = frozenset(
    {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE", "NODE_FAIL", "PREEMPTED"}
)


@dataclass
class SlurmEnergy:
    """Ended jobs through ``sacct`` (slurm.conf: AcctGatherEnergyType)."""

    slurm: Slurm
    name: str = "slurmdbd"

    def finished(self, since_s: float) -> Sequence[JobEnergy]:
        """Return jobs that ended since then, in order of their ends. Raises SlurmError.

        sacct selects by the second, so the end is compared again here.
        """
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_s))
        text = read(self.slurm, ("sacct", "-n", "-P", "-X", "-a", "-S", since, "-E", "now", "-o", FIELDS))
        jobs = [job for line in text.splitlines() for job in [parse(line, self.name)] if job is not None]
        return sorted((job for job in jobs if job.end_s >= since_s), key=lambda job: (job.end_s, job.name))


def parse(line: str, source: str) -> JobEnergy | None:
    """Parse one line of sacct; None for a job that has not ended or never started, and for a line of another form.

    A state may have words behind it (``CANCELLED by 1000``); the first one decides.
    """
    parts = line.split("|")
    state = parts[6].partition(" ")[0] if len(parts) == 10 else ""
    if state not in ENDED:
        return None
    try:
        submit, start, end = (float(parts[i]) for i in (1, 2, 3))
        nodes = int(parts[4])
        energy = float(parts[5]) if parts[5] else math.nan
        uid = int(parts[7])
    except ValueError:
        return None
    measured = math.isfinite(energy) and 0.0 < energy < NO_ENERGY and energy not in NO_ENERGY_32
    return JobEnergy(
        parts[0], submit, start, end, nodes, energy if measured else math.nan, state, source, uid, *parts[8:]
    )


def managers(slurm: Slurm) -> dict[str, list[int]]:
    """Return the user ids of the coordinators of each account, as far as this host knows their names.

    Raises: SlurmError.
    """
    text = read(slurm, ("sacctmgr", "-n", "-P", "show", "account", "withcoord", "format=Account,Coordinators"))
    found: dict[str, list[int]] = {}
    for line in text.splitlines():
        account, _, names = line.partition("|")
        mine = found.setdefault(account, [])
        for name in filter(None, names.split(",")):
            with suppress(KeyError):
                mine.append(getpwnam(name).pw_uid)
    return found
