"""Read what decides about a waiting job beside its size: association, QOS, nice, reservation, features, excluded nodes.

Two further lists of squeue, apart from the one that every round reads (``observe``): they are asked for where a job is
new, and otherwise a few times a minute, since users change these fields rarely. No field holds a text of the user's:
features and reservations are names that exist in Slurm, or the submission is refused.

``parse_tres`` reads counts of trackable resources as Slurm prints them: ``cpu=16,mem=62.50G,node=2,license/watts=400``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import JobKey
from wattqueue.live.slurm.commands import SlurmError

_COLUMNS = (
    "JobArrayID", "SubmitTime", "AssocID", "QOS", "Nice", "NumCPUs", "NumNodes", "EligibleTime", "tres-alloc",
    "Reservation", "Feature",
)  # fmt: skip
FACTS = ("squeue", "-h", "-r", "-a", "-O", ":|,".join(_COLUMNS) + ":")
"""Features last: an expression of them may hold bars."""
EXCLUDED = ("squeue", "-h", "-r", "-a", "-o", "%i|%V|%x")
"""Excluded nodes: the long format has no name for them (22.05 to 26.05)."""
NONE = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})


class JobFacts(NamedTuple):
    """What is known of one job beside its row."""

    association: int
    """Number of its association; 0 without accounting."""
    qos: str
    nice: int
    cpus: int
    """CPUs that it asks for, or holds."""
    nodes: int
    eligible_s: float
    """When it may start first, as Slurm has it; 0 where Slurm has none yet (it is held)."""
    tres: Mapping[str, float]
    reservation: str
    features: str
    excluded: frozenset[str]


def parse_facts(text: str, excluded: str) -> dict[JobKey, JobFacts]:
    """Facts of each job by key; lines that are none are left out.

    Raises: SlurmError where there are lines and none of them is a job's.
    """
    without = dict(_excluded(line) for line in excluded.splitlines() if line.count("|") == 2)
    found: dict[JobKey, JobFacts] = {}
    lines = text.splitlines()
    for line in lines:
        parts = line.split("|", len(_COLUMNS) - 1)
        try:
            key = JobKey(parts[0], float(parts[1]))
            eligible = 0.0 if parts[7] in NONE else float(parts[7])
            found[key] = JobFacts(
                int(parts[2]), "" if parts[3] in NONE else parts[3], int(parts[4]), int(parts[5].partition("-")[0]),
                int(parts[6].partition("-")[0]), eligible, parse_tres(parts[8]),
                "" if parts[9] in NONE else parts[9], "" if parts[10].strip() in NONE else parts[10].strip(),
                without.get(key, frozenset()),
            )  # fmt: skip
        except (ValueError, IndexError):
            continue
    if lines and not found:
        raise SlurmError(f"squeue printed {lines[0][:80]!r}, which is no job")
    return found


def _excluded(line: str) -> tuple[JobKey, frozenset[str]]:
    name, submit, nodes = line.split("|")
    try:
        return JobKey(name, float(submit)), frozenset() if nodes in NONE else frozenset(expand(nodes))
    except ValueError:
        return JobKey(name, 0.0), frozenset()


_PIECE = re.compile(r"([A-Za-z0-9_/:.\-]+)=([0-9]+(?:\.[0-9]+)?)([KMGTP]?)")
_SCALE = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_THOUSANDS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def parse_tres(text: str) -> dict[str, float]:
    """Counts by name; memory in MB. Pieces without a count (``N`` for no limit, ``(null)``) are left out."""
    found = {}
    for piece in text.split(","):
        match = _PIECE.match(piece)
        if match is not None:
            scale = _SCALE if match[1] == "mem" else _THOUSANDS
            found[match[1]] = float(match[2]) * scale[match[3]]
    return found
