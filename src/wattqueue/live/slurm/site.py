"""Read what a Slurm site has settled about its jobs (``live.cluster.SiteConstraints``), a few times a minute.

One :class:`SiteReader` belongs to an observer. It computes what follows for jobs from what ``site_sources`` has read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wattqueue.live.cluster import Job, JobKey, LimitUse, Node, SiteConstraints
from wattqueue.live.slurm.associations import JOBS, limits_of
from wattqueue.live.slurm.commands import LICENCE
from wattqueue.live.slurm.job_facts import JobFacts
from wattqueue.live.slurm.multifactor import Factors, JobFactors, PartitionFactors, weights_of
from wattqueue.live.slurm.site_sources import AGES_S, SiteSources
from wattqueue.live.slurm.sizing import Needs, Shape
from wattqueue.live.slurm.suitable import SOFT, Groups, able_nodes, closed_nodes, group_nodes
from wattqueue.model.plain_numbers import is_whole

PRIORITIES_S = 30.0
"""Age from which priorities are computed again: Slurm itself does so every ``PriorityCalcPeriod`` (5 min)."""
_UNKNOWN = JobFacts(0, "", 0, 1, 1, 0.0, {}, "", "", frozenset())


@dataclass
class SiteReader:
    """Reads and keeps what the site has settled. Used by one thread."""

    sources: SiteSources
    _priority: dict[JobKey, Mapping[str, float]] = field(default_factory=dict)
    _priority_s: float = -math.inf
    """Time for which the priorities were computed."""
    _shares: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """Fair shares by which they were computed."""
    _later_s: dict[JobKey, float] = field(default_factory=dict)
    """When a job was last seen waiting for a dependency or a start time."""
    _able: dict[JobKey, tuple[Job, frozenset[str] | None]] = field(default_factory=dict)
    _claims: dict[JobKey, tuple[Job, tuple[LimitUse, ...]]] = field(default_factory=dict)
    _sets: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """Equal sets of nodes as one object."""
    _others: dict[str, int] = field(default_factory=dict)
    """Licences beside ours, as last seen."""
    _limits: dict[str, float] = field(default_factory=dict)
    _groups: tuple[Sequence[Node], Groups] = ((), {})
    """Nodes, and the same nodes by what jobs may ask of them."""
    _kept: tuple[Sequence[Job], float, SiteConstraints] = ((), -math.inf, SiteConstraints())
    """Rows of the last site, its time, and the site."""

    def site(
        self,
        jobs: Sequence[Job],
        nodes: Sequence[Node],
        shapes: Mapping[str, Shape],
        needs: Mapping[JobKey, Needs],
        licences: str,
        now_s: float,
    ) -> SiteConstraints:
        """Return what the site has settled about these jobs.

        ``shapes`` are the resources of nodes by name, ``licences`` what ``scontrol show licenses`` printed.
        """
        waiting = [row for row in jobs if row.pending]
        if not waiting:
            return SiteConstraints(problems=tuple(self.sources.problems.values()))
        changed = self.sources.refresh(waiting, now_s)
        others = other_licences(licences)
        if others != self._others:
            self._others, self._claims, changed = others, {}, True
        rows, made_s, site = self._kept
        same = not changed and now_s - made_s < AGES_S["nodes"] and nodes is self._groups[0]
        if same and len(rows) == len(jobs) and all(map(operator.is_, rows, jobs)):
            return site
        if changed or nodes is not self._groups[0]:
            self._able, self._claims, self._sets = {}, {}, {}
            self._groups = (nodes, group_nodes(nodes, self.sources.features, shapes))
        for row in waiting:
            if not row.eligible:
                self._later_s[row.key] = now_s
        priority = self._priorities(waiting, nodes, shapes, now_s) if self.sources.priorities else {}
        claims = self._all_claims(jobs, nodes, shapes)
        able, reserved, barred = self._nodes(waiting, needs, now_s)
        site = SiteConstraints(
            priority, barred, dict(self._limits), claims, able, reserved, tuple(self.sources.problems.values())
        )
        self._kept = (jobs, now_s, site)
        return site

    # -- priorities ----------------------------------------------------------------------------
    def _priorities(
        self, waiting: Sequence[Job], nodes: Sequence[Node], shapes: Mapping[str, Shape], now_s: float
    ) -> Mapping[JobKey, Mapping[str, float]]:
        """Return the priorities of all waiting jobs, all computed for one time; the same object while none is new."""
        old = self._priority
        if now_s - self._priority_s >= PRIORITIES_S or self.sources.shares is not self._shares:
            old, self._priority_s, self._shares = {}, now_s, self.sources.shares
        new = [row for row in waiting if row.key not in old]
        if not new and old is self._priority:
            return old
        factors = Factors(
            weights_of(self.sources.config), self.sources.partitions, self.sources.associations, self.sources.shares,
            len(nodes), sum(shape.cpus for shape in shapes.values()),
        )  # fmt: skip
        self._priority = {**old, **{row.key: self._of(factors, row) for row in new}}
        return self._priority

    def _of(self, factors: Factors, row: Job) -> Mapping[str, float]:
        facts = self.sources.facts.get(row.key, _UNKNOWN)
        since_s = row.key.submit_s
        if "ACCRUE_ALWAYS" not in factors.weights.flags:
            since_s = max(since_s, facts.eligible_s, self._later_s.get(row.key, 0.0))
        job = JobFactors(
            facts.association, facts.qos, facts.nice, facts.cpus, facts.nodes, facts.tres, row.walltime_s, since_s
        )
        return factors.by_partition(job, tuple(row.partition.split(",")), self._priority_s)

    # -- limits --------------------------------------------------------------------------------
    def _all_claims(
        self, jobs: Sequence[Job], nodes: Sequence[Node], shapes: Mapping[str, Shape]
    ) -> Mapping[JobKey, tuple[LimitUse, ...]]:
        """Return what each job takes of the limits, which go into ``_limits``; unchanged rows are not looked at."""
        if not self._claims:
            self._limits = {f"licence {name}": float(count) for name, count in self._others.items()}
        enforced = {"limits", "safe", "all"} & set(self.sources.config.get("AccountingStorageEnforce", "").split(","))
        if not self._limits and not enforced:
            return {}
        largest = _largest_cpus(nodes, shapes) if enforced else {}
        old, self._claims = self._claims, {}
        for row in jobs:
            if not (row.pending or row.active):
                continue
            known = old.get(row.key)
            if known is None or known[0] is not row:
                known = (row, tuple(self._claims_of(row, largest, bool(enforced))))
            self._claims[row.key] = known
        return {key: claims for key, (_, claims) in self._claims.items() if claims}

    def _claims_of(self, row: Job, largest: Mapping[str, int], enforced: bool) -> Iterable[LimitUse]:
        others = row.native if isinstance(row.native, tuple) else ()
        for piece in others:
            name, _, count = str(piece).partition(":")
            if f"licence {name}" in self._limits and is_whole(count or "1"):
                yield LimitUse(f"licence {name}", float(count or 1))
        facts = self.sources.facts.get(row.key)
        if not enforced or facts is None:
            return
        uses = self._uses(row, facts, largest)
        names = row.partition.split(",")
        above = self.sources.partitions.get(names[0], PartitionFactors()).qos if len(names) == 1 else ""
        for title, resource, most in limits_of(
            self.sources.associations, facts.association, row.uid, tuple(filter(None, (above, facts.qos)))
        ):
            if uses.get(resource):
                self._limits[title] = most
                yield LimitUse(title, uses[resource])

    def _uses(self, row: Job, facts: JobFacts, largest: Mapping[str, int]) -> dict[str, float]:
        """Return what a job takes of each resource. A waiting one gets whole nodes: the CPUs of the largest count."""
        uses = {name: count for name, count in facts.tres.items() if name.startswith(("gres/", "license/"))}
        if "MEMORY" in self.sources.config.get("SelectTypeParameters", "").upper():
            uses["mem"] = facts.tres.get("mem", 0.0)
        cpus = float(row.cpus)
        if row.pending:
            cpus = max(cpus, float(row.nodes * max((largest.get(p, 0) for p in row.partition.split(",")), default=0)))
        watts = {f"license/{LICENCE}": float(row.watts)} if row.watts > 0 else {}
        return {**uses, **watts, JOBS: 1.0, "node": float(row.nodes), "cpu": cpus}

    # -- nodes ---------------------------------------------------------------------------------
    def _nodes(
        self, waiting: Sequence[Job], needs: Mapping[JobKey, Needs], now_s: float
    ) -> tuple[dict[JobKey, frozenset[str]], dict[JobKey, frozenset[str]], dict[JobKey, str]]:
        """Return the nodes that may serve jobs, those of reservations for jobs that name one, and jobs barred."""
        by_name = {one.name: one for one in self.sources.reservations}
        able: dict[JobKey, frozenset[str]] = {}
        reserved: dict[JobKey, frozenset[str]] = {}
        barred: dict[JobKey, str] = {}
        old, self._able = self._able, {}
        for row in waiting:
            facts = self.sources.facts.get(row.key, _UNKNOWN)
            known = old.get(row.key)
            if known is None or known[0] is not row:
                known = (row, self._able_of(row, facts, needs.get(row.key)))
            self._able[row.key] = known
            mine, own = known[1], by_name.get(facts.reservation)
            if facts.reservation and not (own is not None and own.flags & SOFT):
                if own is None or not own.active(now_s):
                    barred[row.key] = f"reservation {facts.reservation} is not active"
                else:
                    every = self._members(row)
                    reserved[row.key] = self._one((every if mine is None else mine) & own.nodes)
                continue
            closed = closed_nodes(self.sources.reservations, now_s, row.walltime_s, facts.reservation)
            if closed:
                mine = (self._members(row) if mine is None else mine) - closed
            if mine is not None:
                able[row.key] = self._one(mine)
        return able, reserved, barred

    def _members(self, row: Job) -> frozenset[str]:
        """Return the nodes of a job's partitions."""
        groups = self._groups[1]
        kinds = (names for p in row.partition.split(",") for _, names in groups.get(p, ()))
        return self._one(frozenset[str]().union(*kinds))

    def _able_of(self, row: Job, facts: JobFacts, needs: Needs | None) -> frozenset[str] | None:
        """Return the nodes that may serve a job; None where all of its partitions' may."""
        found = able_nodes(self._groups[1], row.partition.split(","), facts.features, facts.excluded, needs)
        if row.requested and len(row.requested) >= row.nodes:
            return self._one(frozenset(row.requested) if found is None else found & frozenset(row.requested))
        # none at all: what was computed may be wrong, and Slurm gives its own reason
        return None if not found else self._one(found)

    def _one(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return an equal set, the same object each time."""
        return self._sets.setdefault(nodes, nodes)


def _largest_cpus(nodes: Sequence[Node], shapes: Mapping[str, Shape]) -> dict[str, int]:
    """Return the CPUs of the largest node of each partition."""
    found: dict[str, int] = {}
    for node in nodes:
        cpus = shapes[node.name].cpus if node.name in shapes else 0
        for name in node.partitions:
            found[name] = max(found.get(name, 0), cpus)
    return found


def other_licences(text: str) -> dict[str, int]:
    """Counts of the licences beside ours that jobs may hold together: those in total less those reserved."""
    found = {}
    for line in text.splitlines():
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        name = fields.get("LicenseName", LICENCE)
        if name != LICENCE and is_whole(fields.get("Total", "")):
            found[name] = int(fields["Total"]) - int(fields.get("Reserved", 0) or 0)
    return found
