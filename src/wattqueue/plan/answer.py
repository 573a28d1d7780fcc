"""Answer the question: baselines, the most nodes, what they risk and cost, and a domain derated for 8 hours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.domain_load import added_w, domain_loads
from wattqueue.model.machine import Machine
from wattqueue.model.supply import SupplyTree
from wattqueue.plan.growth import levels_of
from wattqueue.plan.prepare import PlanSetup
from wattqueue.plan.quantiles import NodeQuantiles
from wattqueue.plan.risk import Exceedance, over_by_day, worst_of
from wattqueue.plan.search import climb
from wattqueue.plan.trial import Trial, Trials, mean_waits_s
from wattqueue.plan.truth import exceedances
from wattqueue.sim.engine import Run

HOTTER = 1.1
"""Factor of watts under which the answer is given once more."""
DERATED_S = 8 * 3_600.0
MOST = 4
"""Times the nodes at their stated maximum that are tried at most."""


@dataclass(frozen=True, slots=True)
class TriedNodes:
    """One number of nodes that was tried, as measured and with hotter jobs."""

    nodes: int
    planning: float
    """Lowest limits that users accept, over those of the breakers."""
    wait_s: float
    """Mean wait under them."""
    plain_wait_s: float
    """Mean wait without limits."""
    measured: Exceedance
    hotter: Exceedance


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A domain derated for 8 hours from the time on at which it carries most."""

    domain: str
    limit_w: float
    begin_s: float
    extra_wait_s: float
    """Rise of the mean wait of the same jobs."""
    never_ran: int
    """Jobs that start without it, and not with it."""
    above_s: float
    """Seconds of the 8 hours in which running jobs keep the domain above the lowered limit."""
    refused: str = ""
    """Why it could not be rehearsed; empty where it was."""


@dataclass(frozen=True, eq=False)
class PlanAnswer:
    """Everything that text, page and files show."""

    setup: PlanSetup
    nameplate: int
    """Nodes that fit at their stated maximum."""
    high: int
    """Nodes that fit at the 99.9 % quantile of measured watts."""
    nodes: int
    """The answer."""
    hotter: int
    """The answer if jobs draw ``HOTTER`` times as much."""
    planning: float
    """Limits to give to the pass, over those of the breakers."""
    plain: Run
    """The answer's nodes without limits."""
    run: Run
    """The answer's nodes under the planning limits."""
    risks: tuple[Exceedance, ...]
    """Time above limits by ratios of other jobs and by the jobs' own watts, at each correlation that the data cannot
    exclude; with quantiles alone at 1."""
    points: tuple[TriedNodes, ...]
    rehearsal: Rehearsal

    @property
    def more(self) -> int:
        """Return nodes beyond those that fit at their stated maximum."""
        return self.nodes - self.nameplate

    @property
    def risk(self) -> Exceedance:
        """Return the worst of the risks."""
        return worst_of(self.risks)

    @property
    def replay(self) -> Exceedance:
        """Return the worst of the risks in which each job draws its own watts."""
        return worst_of([one for one in self.risks if one.own] or self.risks)

    @cached_property
    def waits_s(self) -> tuple[float, float]:
        """Return the mean wait without and with limits."""
        return mean_waits_s(self.plain, self.run)

    @property
    def days(self) -> float:
        """Return the days of the workload."""
        submit = self.setup.jobs.submit_s
        return float(np.ptp(submit)) / 86_400.0


def answer(setup: PlanSetup, *, tell: Callable[[int], None] | None = None) -> PlanAnswer:
    """Find the most nodes and what they mean. ``tell`` is called with the number of runs made."""
    counted = setup
    if setup.quantiles is not None:
        counted = setup.at_watts(setup.quantiles.at(1.0 - setup.question.risk))
    trials = Trials(counted, tell or (lambda _: None))
    found = _ByJobs(setup, trials) if setup.quantiles is None else _ByQuantiles(setup, setup.quantiles, trials)
    nameplate = setup.fits(setup.nameplate_w)
    nodes, hotter = found.most(1.0), found.most(HOTTER)
    planning, run, risks = found.planned(nodes)
    plain = trials.plain(nodes)
    rehearsal = _rehearsed(setup, trials, run)
    return PlanAnswer(
        setup, nameplate, setup.fits(setup.high_node_w), nodes, hotter, planning, plain, run, tuple(risks),
        found.points(), rehearsal,
    )  # fmt: skip


@dataclass(eq=False)
class _ByJobs:
    """Jobs whose watts are known: the risk is that of their ratios."""

    setup: PlanSetup
    trials: Trials

    def most(self, factor: float) -> int:
        """Return the most nodes that pass."""
        setup = self.setup
        begin = setup.growth.always_fit([watts * factor for watts in setup.greatest_unit_w])
        return climb(lambda nodes: self.passes(nodes, factor), begin, levels_of(setup.growth.part.nodes), self._limit)

    @property
    def _limit(self) -> int:
        return MOST * max(self.setup.fits(self.setup.nameplate_w), self.setup.growth.part.nodes)

    def passes(self, nodes: int, factor: float) -> bool:
        """Return whether the trial of so many nodes needs no higher limits, and keeps them for long enough."""
        if nodes < self.setup.growth.least:
            return True  # a step on the way to the first machine that can be built
        if self.trials.at(nodes).index > self.trials.top:
            return False
        return self.risk(nodes, factor).upper <= self.setup.question.risk

    def risk(self, nodes: int, factor: float) -> Exceedance:
        """Return the worst risk of a trial."""
        if (nodes, factor) not in self._risks:
            found = exceedances(self.trials.at(nodes).run, self.setup, nodes, factor)
            self._risks[nodes, factor] = worst_of(found)
        return self._risks[nodes, factor]

    @cached_property
    def _risks(self) -> dict[tuple[int, float], Exceedance]:
        return {}

    def planned(self, nodes: int) -> tuple[float, Run, list[Exceedance]]:
        """Return the highest planning limits that keep risk and waits, their run, and its risks.

        The lowest place passes where nodes do at all; above it waits are shorter, and less is kept free.
        """
        trials, setup = self.trials, self.setup
        if nodes < setup.growth.least:
            hint = "a breaker must carry a node in each of the lowest domains"
            raise MachineError(f"{nodes} nodes fit", where=setup.machine.name, hint=hint)
        trial = trials.at(nodes)
        low, high = min(trial.index, trials.top), trials.top
        scale, run = 1.0, trials.run(nodes, 1.0)
        if trial.index <= trials.top and not self._kept(trial, run):
            scale, run = trials.scale(low), trial.run
            while low < high:
                middle = (low + high + 1) // 2
                tried = trials.run(nodes, trials.scale(middle))
                if self._kept(trial, tried):
                    low, scale, run = middle, trials.scale(middle), tried
                else:
                    high = middle - 1
        return scale, run, exceedances(run, setup, nodes, 1.0)

    def _kept(self, trial: Trial, run: Run) -> bool:
        """Return whether a run of a trial's nodes keeps waits and limits."""
        risk = worst_of(exceedances(run, self.setup, trial.nodes, 1.0))
        return self.trials.accepted(trial.plain, run) and risk.upper <= self.setup.question.risk

    def points(self) -> tuple[TriedNodes, ...]:
        """Return the numbers that were tried."""
        return tuple(
            TriedNodes(nodes, self.trials.scale(trial.index), wait_s, plain_s, self.risk(nodes, 1.0),
                       self.risk(nodes, HOTTER))
            for nodes, trial in sorted(self.trials.made.items())
            for plain_s, wait_s in [mean_waits_s(trial.plain, trial.run)]
        )  # fmt: skip


@dataclass(eq=False)
class _ByQuantiles:
    """Jobs without watts: every node counts a high quantile at all times, so that no job waits for watts."""

    setup: PlanSetup
    table: NodeQuantiles
    trials: Trials

    def most(self, factor: float) -> int:
        """Return the most nodes whose common quantile keeps the limits for long enough."""
        return self.setup.fits(self.table.at(1.0 - self.setup.question.risk) * factor)

    def planned(self, nodes: int) -> tuple[float, Run, list[Exceedance]]:
        """Return the limits as they are, the run under them, and the risk: correlation 1, no interval."""
        return 1.0, self.trials.run(nodes, 1.0), [self.risk(nodes, 1.0)]

    def risk(self, nodes: int, factor: float) -> Exceedance:
        """Return the share of the time in which so many nodes may draw more than fits, all of them together."""
        unit_w = self.table.node_w * factor / self.setup.per_node
        low = [
            w for w, one in zip(self.table.node_w, unit_w, strict=True) if self.setup.growth.fits(float(one)) >= nodes
        ]
        share = self.table.share_above(float(low[-1])) if low else 1.0
        return Exceedance(share, share, "", share, 1.0)

    def points(self) -> tuple[TriedNodes, ...]:
        """Return a point for the baselines and for each number between them."""
        setup = self.setup
        ends = [setup.fits(setup.nameplate_w), self.most(HOTTER), self.most(1.0)]
        step = max(1, (max(ends) - min(ends)) // 20)
        return tuple(
            TriedNodes(nodes, 1.0, math.nan, math.nan, self.risk(nodes, 1.0), self.risk(nodes, HOTTER))
            for nodes in range(min(ends), max(ends) + 3 * step + 1, step)
        )


def _rehearsed(setup: PlanSetup, trials: Trials, run: Run) -> Rehearsal:
    """Run the answer once more with a domain derated for 8 hours."""
    machine, question = run.machine, setup.question
    tree = machine.supply_tree
    name = question.derate_domain or largest_row(tree)
    at = [domain.name for domain in tree.domains].index(name)
    stated = float(setup.growth.limits_w[at])
    if not math.isfinite(stated):
        return Rehearsal(name, stated, 0.0, 0.0, 0, 0.0, f"{name} has no limit of its own")
    limit_w = stated * question.derate
    begin = busiest_s(run, at, DERATED_S)
    planned = float(tree.domains[at].least_limit_w)
    try:
        derated = with_dip(
            machine, name, (begin, begin + DERATED_S), planned * question.derate, float(run.jobs.submit_s.min())
        )
        ran = trials.simulated(run.jobs, derated)
    except (MachineError, PolicyError) as error:
        return Rehearsal(name, limit_w, begin, 0.0, 0, 0.0, f"{error.what}")
    lost = int((run.schedule.ran & ~ran.schedule.ran).sum())
    before, after = mean_waits_s(run, ran)
    return Rehearsal(name, limit_w, begin, after - before, lost, _above_s(ran, at, limit_w, begin))


def largest_row(tree: SupplyTree) -> str:
    """Return the domain with most units of those that feed others, with a limit, and are not all; else of all."""
    units = [sum(part.units for part in parts) for parts in tree.below]
    limited = [k for k, domain in enumerate(tree.domains) if math.isfinite(domain.least_limit_w)]
    feeds = [k for k in limited if k in set(tree.parent.tolist()) and units[k] < max(units)]
    feeds = feeds or [k for k in limited if k in set(tree.parent.tolist())]
    return tree.domains[max(feeds or limited, key=lambda k: units[k])].name


def busiest_s(run: Run, domain: int, length_s: float) -> float:
    """Return the begin of the stretch of so many seconds in which a domain's jobs count most watts."""
    limits = np.full(len(run.machine.supply_tree.domains), np.inf)
    limits[domain] = 0.0
    (load,) = domain_loads(run.machine, run.schedule, limits)
    start, end = run.schedule.start_s[load.job], run.schedule.end_s[load.job]
    watts = load.units * (run.schedule.predicted_w / np.maximum(run.jobs.nodes, 1))[load.job]
    first, last = float(run.jobs.submit_s.min()), float(run.jobs.submit_s.max())
    begins = np.arange(first, max(last - length_s, first) + 1.0, length_s / 8)

    def energy_j(until: float) -> float:
        return float((watts * np.clip(until - start, 0.0, end - start)).sum())

    total = np.array([energy_j(at) for at in np.append(begins, begins[-1] + length_s * (np.arange(8) + 1) / 8)])
    return float(begins[int(np.argmax(total[8:] - total[:-8]))])


def with_dip(machine: Machine, name: str, span_s: tuple[float, float], limit_w: float, first_s: float) -> Machine:
    """Return a machine on which the limit of one domain is lower for a while."""
    begin, end = span_s
    times = (min(first_s, begin) - 1.0, begin, end)
    supply = tuple(
        replace(one, limit_w=None, limit_s=times, limits_w=(one.least_limit_w, limit_w, one.least_limit_w))
        if one.name == name
        else one
        for one in machine.supply
    )
    return replace(machine, supply=supply)


def _above_s(run: Run, domain: int, limit_w: float, begin_s: float) -> float:
    """Return the seconds of the 8 hours in which a domain counts more than the lowered limit."""
    limits = np.full(len(run.machine.supply_tree.domains), np.inf)
    limits[domain] = limit_w
    (load,) = domain_loads(run.machine, run.schedule, limits)
    net = added_w(run.machine, run.schedule, run.schedule.predicted_w / np.maximum(run.jobs.nodes, 1))
    span = run.schedule.start_s, run.schedule.end_s
    return float(over_by_day(load, span, net[:, None], np.array([begin_s, begin_s + DERATED_S])).sum())
