"""Assess one window: the bound, the best schedule known and the policy's own, each by four measures.

Every number of a schedule comes from a schedule that ``check`` has replayed; a policy whose schedule keeps neither the
cap nor the rule of admission with the true watts has no gap, and the reason stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.formats.tariff import Tariff
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.capabilities import resolve
from wattqueue.runs.perform import RunInputs
from wattqueue.sim.begin import signals_of
from wattqueue.sim.physics import true_figures
from wattqueue.sim.truth import actual_power
from wattqueue_studies.bound.bill import BoundedBill, bound_bill, kept_limit
from wattqueue_studies.bound.certificate import GoalRates
from wattqueue_studies.bound.check import require_kept
from wattqueue_studies.bound.front import FrontPoint, energy_front
from wattqueue_studies.bound.instance import Instance, Whole
from wattqueue_studies.bound.policy_run import replayed_policy, rows_of_options
from wattqueue_studies.bound.problem import Problem, instance_of, job_options, machine_problem, refuse_impossible
from wattqueue_studies.bound.prove import Proven, prove
from wattqueue_studies.bound.schedules import FoundSchedule, found_schedules, near_program
from wattqueue_studies.bound.store import (
    ADMISSION,
    BILL,
    ENERGY,
    MAKESPAN,
    MEASURES,
    STRICT,
    TURNAROUND,
    WAIT,
    Proof,
    bound_figures,
)
from wattqueue_studies.bound.windows import BEFORE_S, BoundWindow

Clock = Callable[[], float]
TRIES_A_TARGET = 40
"""Lists that a search for turnaround tries for each one of a bill, which costs as much more to look at."""


@dataclass(frozen=True, slots=True)
class Search:
    """How much is searched.

    Attributes:
        tries: Lists that the search for schedules tries.
        steps: Steps of the ascent of prices.
        seed: Seed of the search.
        front: Rates of the front of turnaround and energy.
        tariffs: Prices or intensities on the trace's clock, with the longest wait in seconds.
    """

    tries: int
    steps: int
    seed: int = 1
    front: int = 0
    tariffs: Sequence[tuple[Tariff, float]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Assessed:
    """Figures of a window: by measure, None where there is none.

    Attributes:
        window: Seed, first instant, jobs.
        bounds: The proven bounds by scope: the strict one, and that of admission where the run was above a fallen cap.
        best: The best schedule known.
        policy: The policy's schedule.
        undefined: Why the policy has no gap; empty where it has one.
        run_s: Mean of the least run times: the wait ratio leaves them out.
        remarks: What a reader should know.
        proofs: What proves the bounds.
        seconds: How long the search for schedules and that for bounds took.
        front: What turnaround and energy together cost, a mean over jobs, by the rate of energy.
        bills: The least bills.
    """

    window: dict[str, object]
    bounds: dict[str, dict[str, float]]
    best: dict[str, float]
    policy: dict[str, float]
    undefined: str
    run_s: float
    remarks: list[str] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    front: list[FrontPoint] = field(default_factory=list)
    bills: list[BoundedBill] = field(default_factory=list)

    @property
    def scope(self) -> str:
        """Return the scope of the bound that the policy is compared with."""
        return ADMISSION if ADMISSION in self.bounds else STRICT

    @property
    def bound(self) -> dict[str, float]:
        """Return that bound."""
        return self.bounds[self.scope]

    def ratio(self, measure: str) -> float:
        """Return the bound over the best schedule known."""
        return self.bound[measure] / self.best[measure] if self.best[measure] else 1.0

    @property
    def wait_ratio(self) -> float:
        """Return the same of mean turnaround without run times; 1 where nothing has to wait."""
        return wait_ratio(self.bound[TURNAROUND], self.best[TURNAROUND], self.run_s)

    @property
    def gap(self) -> float | None:
        """Return by what share the policy's mean turnaround is above the bound; None where that is not defined."""
        return None if self.undefined else self.policy[TURNAROUND] / self.bound[TURNAROUND] - 1.0

    def as_json(self) -> dict[str, Any]:
        """Return every figure."""
        front, bills = ([one.as_json() for one in column] for column in (self.front, self.bills))
        return {
            **self.window, "scope": self.scope, "bound": self.bound,
            **({"strict_bound": self.bounds[STRICT]} if self.scope == ADMISSION else {}), "best_known": self.best,
            "policy": self.policy or None, "ratio": {measure: self.ratio(measure) for measure in MEASURES},
            "wait_ratio": self.wait_ratio, "gap": self.gap, "undefined": self.undefined, "remarks": self.remarks,
            "seconds": self.seconds, **({"front": front} if front else {}), **({"bills": bills} if bills else {}),
        }  # fmt: skip


def wait_ratio(bound_s: float, best_s: float, run_s: float) -> float:
    """Return the ratio of two mean turnarounds without run times; 1 where nothing has to wait."""
    return (bound_s - run_s) / (best_s - run_s) if best_s > run_s else 1.0


def window_problem(inputs: RunInputs, window: BoundWindow) -> Problem:
    """Return the problem of a window: what ran at its begin is fixed.

    Where controls may stop idle nodes, as any may, their idle watts are not lost to every schedule.

    Raises: InputError naming a job that makes it impossible, or whose watts are not known.
    """
    limit = signals_of(inputs.cap, inputs.targets, inputs.machine, inputs.jobs).limit()
    options = job_options(window.jobs, inputs.machine, truth_of(inputs, window.jobs), window.begin_s)
    idle_off = bool(resolve(inputs.policy).controls)
    problem = machine_problem(options, inputs.machine, limit, window.begin_s, idle_off=idle_off)
    rows = rows_of_options(options, window.option)
    problem = problem.with_running(rows, options.run_s[rows] - BEFORE_S)
    refuse_impossible(problem)
    return problem


def truth_of(inputs: RunInputs, jobs: Jobs) -> Prediction:
    """Return true watts and time factors."""
    if inputs.physics is None:
        return actual_power(jobs, inputs.machine)
    return true_figures(inputs.physics, jobs, inputs.machine).actual


@dataclass(frozen=True, slots=True, eq=False)
class BoundedProblem:
    """What was found of a problem: schedules, and what proves the bound on turnaround; seconds for each."""

    found: list[FoundSchedule]
    instance: Instance
    proven: Proven
    seconds: dict[str, float]


def bounded(problem: Problem, begins: list[Whole], search: Search, clock: Clock = lambda: 0.0) -> BoundedProblem:
    """Look for schedules and for prices, then for schedules near the program's; ``begins`` are lists to begin with.

    Raises: InputError where a job never fits.
    """
    at = [clock()]
    found = found_schedules(problem, begins, search.tries, search.seed)
    at.append(clock())
    instance = instance_of(problem)
    proven = prove(instance, found, steps=search.steps)
    at.append(clock())
    found += near_program(problem, proven.mean_start, search.tries, search.seed)
    at.append(clock())
    return BoundedProblem(found, instance, proven, {"search": at[1] - at[0] + at[3] - at[2], "bound": at[2] - at[1]})


def assess(
    inputs: RunInputs, window: BoundWindow, search: Search, facts: dict[str, object], clock: Clock = lambda: 0.0
) -> Assessed:
    """Return the three numbers of a window; ``clock`` returns seconds. Raises: InputError as ``window_problem``."""
    problem = window_problem(inputs, window)
    policy, replayed = replayed_policy(inputs, window, problem)
    core = bounded(problem, [] if policy is None else [policy.order()], search, clock)
    found, begin_s = core.found, clock()
    own = {} if policy is None else figures(problem, policy.start_s, policy.end_s, policy.energy_j)
    measured = [measures_of(problem, one) for one in found]
    measured += [own] if own and not replayed.broken and not replayed.above_cap else []
    bounds, proofs, remarks = {}, [], []
    front: list[FrontPoint] = []
    scopes = {
        STRICT: core.instance,
        **({ADMISSION: instance_of(problem.for_admission())} if replayed.above_cap else {}),
    }
    for scope, instance in scopes.items():
        proven = {TURNAROUND: core.proven if scope == STRICT else prove(instance, found, steps=search.steps)}
        if (instance.run != instance.least(instance.run)[instance.job]).any():  # else waits are turnarounds less runs
            proven[WAIT] = prove(instance, found, GoalRates(ends=False), steps=search.steps)
        remarks += [f"{scope} bound of {name}: {each.remark}" for name, each in proven.items() if each.remark]
        certificates = {name: each.certificate for name, each in proven.items()}
        if search.front:
            points = energy_front(problem, instance, found, search.front)
            certificates |= {f"front_{k}": certificate for k, (certificate, _) in enumerate(points)}
            policy_cost = _cost(own) if own and not replayed.broken else None
            front.clear()  # with a bound for admission, that one's
            for certificate, more in points:
                known = [*measured, *(measures_of(problem, one) for one in more)]
                front.append(FrontPoint.of(instance, certificate, list(map(_cost, known)), policy_cost))
        proofs.append(Proof(facts, scope, instance, certificates))
        bounds[scope] = bound_figures(instance, certificates)
    bills = []
    why = replayed.broken or ("the run was above a fallen cap" if replayed.above_cap else "")
    for tariff, limit_s in search.tariffs:
        limit = kept_limit(problem, found, tariff, limit_s, window.begin_s)
        tries, rng = search.tries // TRIES_A_TARGET, np.random.default_rng(search.seed)
        bill = bound_bill(problem, core.instance, limit, found, inputs.machine.idle_w, tries, rng)
        bills.append(bill.with_policy(problem, None if why else policy, why))
        proofs.append(Proof({**facts, **limit.facts()}, STRICT, bill.instance, {BILL: bill.certificate}))
        remarks += limit.remarks()
    return Assessed(
        facts, bounds, {measure: min(one[measure] for one in measured) for measure in MEASURES}, own, replayed.broken,
        float(np.mean(problem.jobs.least(problem.jobs.run_s))), remarks, proofs,
        {**core.seconds, "bound": core.seconds["bound"] + clock() - begin_s}, front, bills,
    )  # fmt: skip


def figures(problem: Problem, start_s: Floats, end_s: Floats, energy_j: Floats) -> dict[str, float]:
    """Return the measures of a schedule."""
    return {
        TURNAROUND: float(np.mean(end_s - problem.jobs.release_s)),
        WAIT: float(np.mean(start_s - problem.jobs.release_s)),
        MAKESPAN: float(end_s.max()),
        ENERGY: float(energy_j.sum()),
    }


def measures_of(problem: Problem, found: FoundSchedule) -> dict[str, float]:
    """Return the measures of a schedule that was found. Raises: EngineError if its replay finds a rule broken."""
    start_s, end_s = found.seconds(problem)
    require_kept(problem, found.option, start_s, end_s)
    return figures(problem, start_s, end_s, problem.jobs.energy_j[found.option])


def _cost(measured: dict[str, float]) -> tuple[float, float]:
    """Return what a front adds up: mean turnaround, and energy."""
    return measured[TURNAROUND], measured[ENERGY]
