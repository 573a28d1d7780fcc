"""Compute the priority that Slurm's multifactor plugin would give a job that nobody holds.

Slurm gives a held job priority 0, computes no factors for it, and ``sprio`` does not list it. Everything that the
factors are made of can be read all the same, so they are computed here by the same formula (ADR 0017):

    priority = age + association + fair share + job size + partition + QOS + TRES - nice

each term a weight times a factor, the sum cut to a whole number of at least 1. It differs by partition. Partitions of
a higher ``PriorityTier`` come first whatever the priority, as in Slurm's own queue.

Age counts from the time at which the job could have started, as it would in a Slurm without holds: its submission, the
start time that its user set, or the end of what it depended on.

Not read: factors of a site's own plugin (``PrioritySiteFactorPlugin``) and a priority that an administrator sets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.slurm.associations import Associations
from wattqueue.live.slurm.job_facts import parse_tres
from wattqueue.model.plain_numbers import is_whole, number_of

TIER = 2.0**33
"""Weight of a partition's tier: above every priority (32 bits), and exact in a float beside one."""


class JobFactors(NamedTuple):
    """What the priority of one job is made of."""

    association: int
    qos: str
    nice: int
    cpus: int
    nodes: int
    tres: Mapping[str, float]
    limit_s: float
    since_s: float
    """When it could have started first."""


class PartitionFactors(NamedTuple):
    """What a partition adds."""

    job_factor: int = 1
    tier: int = 1
    tres: Mapping[str, float] = {}
    qos: str = ""
    """QOS of the partition, whose limits hold for its jobs."""


@dataclass(frozen=True)
class Weights:
    """Priority settings of slurm.conf."""

    multifactor: bool = True
    """False for priority/basic: every job's priority is then the order of its submission."""
    age: float = 0.0
    association: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: Mapping[str, float] = field(default_factory=dict)
    max_age_s: float = 7 * 86400.0
    favor_small: bool = False
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Factors:
    """All that priorities of jobs are computed from, as of one look."""

    weights: Weights
    partitions: Mapping[str, PartitionFactors]
    associations: Associations
    shares: Mapping[tuple[str, str, str], float]
    nodes: int
    """Nodes of the cluster."""
    cpus: int

    def by_partition(self, job: JobFactors, names: tuple[str, ...], now_s: float) -> dict[str, float]:
        """Return a job's priority on each of these partitions, those of higher tiers first."""
        weights = self.weights
        common = 0.0
        if weights.multifactor:
            common = self._age(job, now_s) + self._association(job) + self._share(job) + self._size(job)
            common += self._qos(job)
        found = {}
        for name in names:
            part = self.partitions.get(name, PartitionFactors())
            priority = 0.0
            if weights.multifactor:
                total = common + self._partition(part) + self._tres(job, part) - job.nice
                priority = max(1.0, math.floor(total))
            found[name] = part.tier * TIER + priority
        return found

    def _age(self, job: JobFactors, now_s: float) -> float:
        if not self.weights.age or not self.weights.max_age_s:
            return 0.0
        return self.weights.age * min(1.0, max(0.0, math.floor(now_s) - job.since_s) / self.weights.max_age_s)

    def _association(self, job: JobFactors) -> float:
        known = self.associations.by_number
        if not self.weights.association or job.association not in known:
            return 0.0
        most = max((one.priority for one in known.values()), default=0)
        priority = known[job.association].priority
        return self.weights.association * self._norm(priority, most, "NO_NORMAL_ASSOC")

    def _share(self, job: JobFactors) -> float:
        one = self.associations.by_number.get(job.association)
        if one is None or not self.weights.fair_share:
            return 0.0
        return self.weights.fair_share * self.shares.get((one.account, one.user, one.partition), 0.0)

    def _qos(self, job: JobFactors) -> float:
        level = self.associations.qos.get(job.qos)
        if level is None or not self.weights.qos:
            return 0.0
        most = max((one.priority for one in self.associations.qos.values()), default=0)
        return self.weights.qos * self._norm(level.priority, most, "NO_NORMAL_QOS")

    def _partition(self, part: PartitionFactors) -> float:
        most = max((one.job_factor for one in self.partitions.values()), default=0)
        return self.weights.partition * self._norm(part.job_factor, most, "NO_NORMAL_PART")

    def _norm(self, figure: int, most: int, raw: str) -> float:
        """Return a figure relative to the greatest one, or as it stands where a flag says so."""
        if {raw, "NO_NORMAL_ALL"} & self.weights.flags:
            return float(figure)
        return figure / most if most else 0.0

    def _size(self, job: JobFactors) -> float:
        if not self.weights.job_size or not self.nodes or not self.cpus:
            return 0.0
        if "SMALL_RELATIVE_TO_TIME" in self.weights.flags:
            minutes = job.limit_s / 60.0 if math.isfinite(job.limit_s) and job.limit_s >= 60.0 else 1.0
            share = job.cpus / minutes / self.cpus
            share = 1.0 - share if self.weights.favor_small else share
        elif self.weights.favor_small:
            share = ((self.nodes - job.nodes) / self.nodes + (self.cpus - job.cpus) / self.cpus) / 2
        else:
            share = (job.nodes / self.nodes + job.cpus / self.cpus) / 2
        return self.weights.job_size * min(1.0, max(0.0, share))

    def _tres(self, job: JobFactors, part: PartitionFactors) -> float:
        total = 0.0
        for name, weight in self.weights.tres.items():
            asked, most = job.tres.get(name, 0.0), part.tres.get(name, 0.0)
            if {"NO_NORMAL_TRES", "NO_NORMAL_ALL"} & self.weights.flags:
                total += weight * asked
            elif most:
                total += weight * min(1.0, asked / most)
        return total


def weights_of(config: Mapping[str, str]) -> Weights:
    """Return the settings of ``scontrol show config``, by key."""

    def number(name: str) -> float:
        value = number_of(config.get(name, "0"))
        return value if 0.0 <= value < math.inf else 0.0

    pieces = (piece.partition("=") for piece in config.get("PriorityWeightTRES", "").split(","))
    pairs = {name.strip(): number_of(count) for name, _, count in pieces}
    return Weights(
        config.get("PriorityType", "").endswith("multifactor"),
        number("PriorityWeightAge"), number("PriorityWeightAssoc"), number("PriorityWeightFairShare"),
        number("PriorityWeightJobSize"), number("PriorityWeightPartition"), number("PriorityWeightQOS"),
        {name: weight for name, weight in pairs.items() if 0.0 <= weight < math.inf},
        _seconds(config.get("PriorityMaxAge", "7-00:00:00")),
        config.get("PriorityFavorSmall", "No").lower().startswith("y"),
        frozenset(re.split(r"[,\s]+", config.get("PriorityFlags", "").strip())) - {""},
    )  # fmt: skip


def _seconds(text: str) -> float:
    """Seconds of ``D-HH:MM:SS``; 0 for anything else."""
    match = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+)", text.strip())
    if match is None:
        return 0.0
    days, hours, minutes, seconds = (int(piece or 0) for piece in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_partitions(text: str) -> dict[str, PartitionFactors]:
    """Factors of each partition of ``scontrol -o show partition``."""
    found = {}
    for line in text.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        if "PartitionName" in fields:
            qos = fields.get("QoS", "N/A")
            found[fields["PartitionName"]] = PartitionFactors(
                _whole(fields, "PriorityJobFactor"), _whole(fields, "PriorityTier"),
                parse_tres(fields.get("TRES", "")), "" if qos in ("N/A", "(null)") else qos,
            )  # fmt: skip
    return found


def _whole(fields: Mapping[str, str], name: str) -> int:
    """Return a whole number of a partition; 1, Slurm's default, where there is none."""
    text = fields.get(name, "1")
    return int(text) if is_whole(text) else 1
