"""Read the question of ``plan`` and check what can be checked before the runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, MachineError, one_of
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.parts.memory import with_needed_units
from wattqueue.plan.growth import MachineGrowth, constant_limits, jobs_for, pace
from wattqueue.plan.quantiles import HIGH, NodeQuantiles, read_quantiles
from wattqueue.plan.ratios import RatioLaw
from wattqueue.policy.policy import policy_from_row
from wattqueue.policy.registry import Policy
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task, machine_of, policy_row, task_workload, with_hashes
from wattqueue.sim.physics import true_figures

DAY_S = 86_400.0
LEVELS = 16
"""Parts of a run whose watts are told apart, where profiles state them."""


@dataclass(frozen=True)
class PlanQuestion:
    """The options of one ``plan`` call, shares of one."""

    task: Task
    breaker: str | None = None
    partition: str | None = None
    risk: float = 0.001
    wait_rise: float = 0.05
    power_quantiles: Path | None = None
    column: str | None = None
    same_load: bool = False
    derate: float = 0.75
    derate_domain: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class KnownWatts:
    """Watts of a unit that workload or physics know of each job; NaN unknown."""

    unit_w: Floats
    """The greatest, where that is known, else the mean. Shape (n,)."""
    level_w: Floats
    """What a unit draws over the run, in ``LEVELS`` equal parts of it, rising; one part, ``unit_w``, without profiles.

    Shape (n, parts)."""
    weight: Floats
    """Unit-seconds of each job. Shape (n,)."""

    @classmethod
    def of(cls, jobs: Jobs, unit_w: Floats | None) -> KnownWatts:
        """Return what is known of jobs, whose greatest or mean watts of a unit are ``unit_w`` (n,), None for none."""
        work_s = np.asarray(np.minimum(jobs.runtime_s, jobs.walltime_s), np.float64)
        peak = np.full(len(jobs), np.nan) if unit_w is None else np.asarray(unit_w, np.float64)
        level = peak[:, None]
        if jobs.profiles is not None and unit_w is not None:
            rows = np.arange(len(jobs))
            parts = [jobs.profiles.power_at(rows, work_s * (k + 0.5) / LEVELS) for k in range(LEVELS)]
            level = np.sort(np.stack(parts, 1), axis=1)
            level = np.where(np.isnan(level), peak[:, None], level)
        return cls(peak, level, work_s * jobs.nodes)

    @property
    def known(self) -> float:
        """Return the share of the unit-seconds whose watts are known."""
        return float(self.weight[np.isfinite(self.unit_w)].sum() / max(float(self.weight.sum()), 1e-300))

    def quantile(self, share: float) -> float:
        """Return the watts that units of jobs stay at or below for a share of their time."""
        there = np.isfinite(self.unit_w)
        law = RatioLaw.of(self.level_w[there].ravel(), np.repeat(self.weight[there], self.level_w.shape[1]))
        return float(law.value[np.searchsorted(law.share, share - 1e-12)])

    @property
    def greatest(self) -> float:
        """Return the greatest watts that are known; 0 for none."""
        return float(self.unit_w[np.isfinite(self.unit_w)].max(initial=0.0))


@dataclass(frozen=True, eq=False)
class PlanSetup:
    """Everything that the runs take, read and checked."""

    question: PlanQuestion
    task: Task
    """With the hashes of its files."""
    jobs: Jobs
    unusable: Unusable
    growth: MachineGrowth
    physics: Physics | None
    measured: KnownWatts
    quantiles: NodeQuantiles | None
    """What stands for jobs whose watts are not known; None where jobs have watts."""
    moving: tuple[str, ...] = ()
    """Domains whose limit moves: the lowest counts."""

    @property
    def machine(self) -> Machine:
        """Return the machine as it is, its limits constant."""
        return self.growth.machine

    @property
    def per_node(self) -> int:
        """Return the units of a node that grows."""
        return self.growth.part.units_per_node

    @cached_property
    def high_node_w(self) -> float:
        """Return the 99.9 % quantile of measured watts of a node."""
        if self.quantiles is not None:
            return self.quantiles.at(HIGH)
        return self.measured.quantile(HIGH) * self.per_node

    @property
    def nameplate_w(self) -> float:
        """Return the stated maximum of a node."""
        return float(self.growth.part.max_w or 0.0) * self.per_node

    @property
    def greatest_unit_w(self) -> list[float]:
        """Return the most that a unit of each partition is known to draw: stated, or measured above it. (P,)."""
        return [max(part.max_w or 0.0, self.measured.greatest, part.idle_w) for part in self.machine.partitions]

    def at_watts(self, node_w: float) -> PlanSetup:
        """Return the setup in which a node that grows has another stated maximum."""
        parts = list(self.machine.partitions)
        parts[self.growth.partition] = replace(self.growth.part, max_w=node_w / self.per_node)
        machine = replace(self.machine, partitions=tuple(parts))
        return replace(self, growth=replace(self.growth, machine=machine))

    def fits(self, node_w: float) -> int:
        """Return how many nodes fit that each draw so much."""
        return int(self.growth.fits(node_w / self.per_node))

    def jobs_of(self, nodes: int) -> Jobs:
        """Return the workload of so many nodes."""
        return jobs_for(self.jobs, self.growth, nodes, same_load=self.question.same_load)

    def day_s(self, nodes: int) -> float:
        """Return how long a day of the workload lasts on so many nodes."""
        return DAY_S * (1.0 if self.question.same_load else pace(self.growth, nodes))

    def policy(self, machine: Machine) -> Policy:
        """Return a new policy object for a machine: estimators keep what they learned."""
        return policy_from_row(self.task.policy, policy_row(self.task, machine))


def prepare(
    question: PlanQuestion, *, machine: Machine | None = None, workload: Workload | None = None,
    physics: Physics | None = None,
) -> PlanSetup:  # fmt: skip
    """Read the inputs and refuse a question that cannot be answered, before anything is run.

    ``machine``, ``workload`` and ``physics`` replace those that the question's task names.

    Raises: InputError for values out of range, a partition or domain that is not there, and watts that nothing states;
    MachineError for limits that no node fits under; PolicyError for an unknown policy or estimator.
    """
    task, machine, workload = machine_of(question.task, machine, workload)
    breaker_w = None if question.breaker is None else _breaker_w(question.breaker, machine)
    names = [part.name for part in machine.partitions]
    if question.partition is not None and question.partition not in names:
        raise InputError(
            f"no partition {question.partition!r}", where="--partition", hint=one_of(question.partition, names)
        )
    at = 0 if question.partition is None else names.index(question.partition)
    if machine.partitions[at].max_w is None:
        raise InputError(
            f"partition {names[at]} states no maximum of a node",
            where=machine.name,
            hint="state max_w in the machine file, or --node-watts IDLE:MAX: it is the nameplate",
        )
    growth = MachineGrowth(constant_limits(machine, breaker_w), at)
    domains = [domain.name for domain in growth.machine.supply]
    if question.derate_domain is not None and question.derate_domain not in domains:
        raise InputError(
            f"no domain {question.derate_domain!r}",
            where="--derate-domain",
            hint=one_of(question.derate_domain, domains),
        )
    truth = physics_of(task, machine, physics)
    workload = workload or task_workload(task)
    jobs = with_needed_units(workload.jobs, machine)
    peak = jobs.peak_power_w() if truth is None else true_figures(truth, jobs, machine).recorded_w(jobs)
    measured = KnownWatts.of(jobs if truth is None else replace(jobs, profiles=None), peak)
    quantiles = None
    if question.power_quantiles is not None:
        quantiles = read_quantiles(question.power_quantiles, question.column)
        if measured.known > 0.0:
            raise InputError(
                f"jobs state the watts of {measured.known:.0%} of their node-hours",
                where="--power-quantiles",
                hint="leave the quantiles out: they are for jobs without watts",
            )
    elif measured.known == 0.0:
        raise InputError(
            "no job has measured watts",
            where=task.workload,
            hint="name measured quantiles of a node's watts with --power-quantiles, or import jobs with their energy",
        )
    row = with_hashes(task, policy_row(task, machine), truth.files if truth is not None else ())
    moving = tuple(one.name for one in machine.supply if one.limit_s)
    setup = PlanSetup(question, row, jobs, workload.unusable, growth, truth, measured, quantiles, moving)
    setup.policy(machine)  # an unknown name is refused now
    if not growth.carries_each(float(growth.part.max_w or 0.0)):
        raise MachineError(
            f"limits do not carry a node of {names[at]} at its stated maximum in each of its lowest domains",
            where=machine.name,
            hint=f"there are {growth.least}: raise their limits, and those above them, or leave some out",
        )
    return setup


def _breaker_w(text: str, machine: Machine) -> float:
    """Return the watts of ``--breaker``. Raises: InputError for anything but a number with a unit."""
    if "%" in text or text.strip().lower() == "none":
        raise InputError(f"{text!r} is no limit of a breaker", where="--breaker", hint="write 400kW or 1.2MW")
    cap = parse_cap(text, replace(machine, partitions=machine.partitions[:1], supply=(), cap_scope="jobs"))
    if len(cap.cap_w) != 1:
        raise InputError("a breaker has one limit", where="--breaker", hint="write 400kW or 1.2MW")
    return float(cap.cap_w[0])
