"""Assess one window: the bound, the best schedule known and the policy's own, each by four measures.

Every number of a schedule comes from a schedule that ``check`` has replayed; a policy whose schedule keeps neither the
cap nor the rule of admission with the true watts has no gap, and the reason stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wattqueue.errors import EngineError, PolicyError
from wattqueue.formats.tariff import Tariff, require_cover
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.signals import Series
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.capabilities import resolve
from wattqueue.runs.perform import RunInputs
from wattqueue.sim.engine import signals_of, simulate
from wattqueue.sim.physics import true_figures
from wattqueue.sim.truth import actual_power
from wattqueue_studies.bound.bill import BillSearch, BoundedBill, TariffLimit, bound_bill
from wattqueue_studies.bound.certificate import GoalRates
from wattqueue_studies.bound.check import ScheduleCheck, replay
from wattqueue_studies.bound.front import FrontPoint, energy_front
from wattqueue_studies.bound.instance import Instance, Whole
from wattqueue_studies.bound.problem import (
    JobChoices,
    Problem,
    instance_of,
    job_options,
    machine_problem,
    refuse_impossible,
    with_running,
)
from wattqueue_studies.bound.prove import Proven, prove
from wattqueue_studies.bound.schedules import FoundSchedule, best_schedule, near_program
from wattqueue_studies.bound.store import ADMISSION, ENERGY, MAKESPAN, STRICT, TURNAROUND, WAIT, Proof, bound_figures
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
        clocks: Whether jobs may run at every clock; else at the highest.
        front: Rates of the front of turnaround and energy, and of turnaround and each bill.
        tariffs: Prices or intensities on the trace's clock, with the longest wait in seconds.
    """

    tries: int
    steps: int
    seed: int = 1
    clocks: bool = True
    front: int = 0
    tariffs: Sequence[tuple[Tariff, float]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Assessed:
    """Figures of a window: by measure, None where there is none.

    Attributes:
        window: Seed, first instant, jobs.
        scope: Of the bound that the policy is compared with; strict where it is compared with none.
        bound: The proven bound.
        strict: The strict bound, where ``bound`` is that of admission.
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
    scope: str
    bound: dict[str, float]
    strict: dict[str, float]
    best: dict[str, float]
    policy: dict[str, float]
    undefined: str
    run_s: float
    remarks: list[str] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    front: list[dict[str, float | None]] = field(default_factory=list)
    bills: list[BoundedBill] = field(default_factory=list)

    def ratio(self, measure: str) -> float:
        """Return the bound over the best schedule known."""
        return self.bound[measure] / self.best[measure] if self.best[measure] else 1.0

    @property
    def wait_ratio(self) -> float:
        """Return the same of mean turnaround without run times; 1 where nothing has to wait."""
        best = self.best[TURNAROUND] - self.run_s
        return (self.bound[TURNAROUND] - self.run_s) / best if best > 0 else 1.0

    @property
    def gap(self) -> float | None:
        """Return by what share the policy's mean turnaround is above the bound; None where that is not defined."""
        if self.undefined:
            return None
        return self.policy[TURNAROUND] / self.bound[TURNAROUND] - 1.0


def window_problem(inputs: RunInputs, window: BoundWindow, search: Search) -> Problem:
    """Return the problem of a window: what ran at its begin is fixed.

    Raises: InputError naming a job that makes it impossible, or whose watts are not known.
    """
    limit = signals_of(inputs.cap, inputs.targets, inputs.machine, inputs.jobs).limit()
    options = _options(inputs, window.jobs.take(slice(window.running, None)), window.begin_s, clocks=search.clocks)
    machine = inputs.machine
    problem = machine_problem(options, machine, limit, window.begin_s, idle_off=switches_off(inputs))
    if window.running:
        before = _options(inputs, window.jobs.take(slice(0, window.running)), window.begin_s, clocks=True)
        empty = machine_problem(before, machine, limit, window.begin_s, idle_off=switches_off(inputs))
        rows = rows_of_options(before, window.option)
        problem = with_running(problem, empty.jobs, rows, before.run_s[rows] - BEFORE_S)
    refuse_impossible(problem)
    return problem


def switches_off(inputs: RunInputs) -> bool:
    """Return whether the policy may stop idle nodes: then their idle watts are not lost to every schedule.

    Any control may.
    """
    return bool(resolve(inputs.policy).controls)


def _options(inputs: RunInputs, jobs: Jobs, begin_s: float, *, clocks: bool) -> JobChoices:
    """Return the options of jobs by the run's truth."""
    return job_options(jobs, inputs.machine, truth_of(inputs, jobs), begin_s, clocks=clocks)


def truth_of(inputs: RunInputs, jobs: Jobs) -> Prediction:
    """Return true watts and time factors."""
    if inputs.physics is None:
        return actual_power(jobs, inputs.machine)
    return true_figures(inputs.physics, jobs, inputs.machine).actual


def rows_of_options(options: JobChoices, option: Whole) -> Whole:
    """Return the row of each job at an option of the machine; -1 for one that it does not have. Shape (n,)."""
    first = options.first[:-1]
    found = np.full(len(options), -1, np.int64)
    rows = np.flatnonzero(options.option == option[options.job])
    found[options.job[rows]] = rows
    return np.where(found >= first, found, -1)


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRun:
    """The policy's schedule of a window's jobs, in seconds from its begin, by rows of ``JobChoices``. Shapes (n,)."""

    option: Whole
    start_s: Floats
    end_s: Floats
    energy_j: Floats
    work: WorkDone

    def order(self) -> Whole:
        """Return the jobs by start. Shape (n,)."""
        return np.argsort(self.start_s, kind="stable").astype(np.int64)


def assess(
    inputs: RunInputs, window: BoundWindow, search: Search, facts: dict[str, object], clock: Clock = lambda: 0.0
) -> Assessed:
    """Return the three numbers of a window; ``clock`` returns seconds. Raises: InputError as ``window_problem``."""
    problem = window_problem(inputs, window, search)
    policy, replayed = replayed_policy(inputs, window, problem)
    begins = [] if policy is None else [policy.order()]
    begin_s = clock()
    _, found = best_schedule(problem, begins, search.tries, search.seed)
    searched_s = clock()
    own = {} if policy is None else figures(problem, policy.start_s, policy.end_s, policy.energy_j)
    scopes = {STRICT: problem, **({ADMISSION: problem.for_admission()} if replayed.above_cap else {})}
    bounds, proofs, remarks = {}, [], []
    front: list[dict[str, float | None]] = []
    near_s = 0.0
    for scope, wide in scopes.items():
        instance = instance_of(wide)
        proven = proofs_of(instance, found, search)
        remarks += [f"{scope} bound of {name}: {each.remark}" for name, each in proven.items() if each.remark]
        certificates = {name: each.certificate for name, each in proven.items()}
        if scope == STRICT:
            near_s -= clock()
            found += near_program(problem, proven[TURNAROUND].mean_start, search.tries, search.seed)
            near_s += clock()
            known = best_known(problem, found)
            if not replayed.broken and not replayed.above_cap:
                known = {measure: min(value, own[measure]) for measure, value in known.items()}
        if search.front:
            points = energy_front(problem, instance, found, search.front)
            certificates |= {f"front_{k}": point.certificate for k, point in enumerate(points)}
            front = [_front_row(problem, instance, point, {} if replayed.broken else own) for point in points]
        proofs.append(Proof(facts, scope, instance, certificates))
        bounds[scope] = bound_figures(instance, certificates)
    bills = [
        with_policy(each, problem, limit, policy, replayed)
        for limit in limits_of(window, problem, search)
        for each in [
            bound_bill(problem, instance_of(problem), limit, found, inputs.machine.idle_w, bill_search(search))
        ]
    ]
    proofs += [bill_proof(facts, each) for each in bills]
    seconds = {"search": searched_s - begin_s + near_s, "bound": clock() - searched_s - near_s}
    run_s = float(np.mean(problem.jobs.least(problem.jobs.run_s)))
    bound = bounds[ADMISSION if replayed.above_cap else STRICT]
    return Assessed(
        facts,
        list(scopes)[-1],
        bound,
        bounds[STRICT],
        known,
        own,
        replayed.broken,
        run_s,
        remarks,
        proofs,
        seconds,
        front,
        bills,
    )


def limits_of(window: BoundWindow, problem: Problem, search: Search) -> list[TariffLimit]:
    """Return the prices on the window's clock. Raises: InputError for a series that does not cover its schedules."""
    found = []
    for tariff, limit_s in search.tariffs:
        series = Series(tariff.series.time_s - window.begin_s, tariff.series.value)
        source = tariff.source
        limit = TariffLimit(series, int(source.per_j), source.unit, limit_s)
        end_s = limit.horizon_s(problem)
        words = f"{window.begin_s:,.0f} s", f"{window.begin_s + end_s:,.0f} s"
        require_cover(tariff, window.begin_s, window.begin_s + end_s, words)
        found.append(limit)
    return found


def bill_search(search: Search) -> BillSearch:
    """Return how much is searched for a bill."""
    return BillSearch(search.tries // TRIES_A_TARGET, search.front, search.seed)


def with_policy(
    bill: BoundedBill, problem: Problem, limit: TariffLimit, policy: PolicyRun | None, replayed: ScheduleCheck
) -> BoundedBill:
    """Return the bill with that of the policy, or the reason why there is none."""
    why = replayed.broken or ("the run was above a fallen cap" if replayed.above_cap else "")
    if policy is None or why:
        return replace(bill, undefined=why)
    waits = policy.start_s - problem.jobs.release_s
    j = int(np.argmax(waits))
    if waits[j] > limit.limit_s + 1e-3:
        told = f"job {problem.jobs.names[j]} waits {waits[j] / 3_600:.1f} h, more than {limit.limit_s / 3_600:g} h"
        return replace(bill, undefined=told)
    watts: Floats = problem.jobs.above_uw[policy.option].astype(np.float64) * 1e-6
    amount = float(limit.paid(watts, policy.start_s, policy.end_s).sum())
    return replace(bill, policy=amount, best=amount if bill.best is None else min(bill.best, amount))


def bill_proof(facts: dict[str, object], bill: BoundedBill) -> Proof:
    """Return what proves a bill."""
    window = {**facts, "tariff": bill.unit, "wait_limit_s": bill.limit_s}
    return Proof(window, STRICT, bill.instance, dict(bill.certificates))


def proofs_of(instance: Instance, found: list[FoundSchedule], search: Search) -> dict[str, Proven]:
    """Return what proves the bounds of mean turnaround, and of mean wait where run times are a choice."""
    proven = {TURNAROUND: prove(instance, found, steps=search.steps)}
    if (instance.run != instance.least(instance.run)[instance.job]).any():
        proven[WAIT] = prove(instance, found, GoalRates(ends=False), steps=search.steps)
    return proven


def figures(problem: Problem, start_s: Floats, end_s: Floats, energy_j: Floats) -> dict[str, float]:
    """Return the measures of a schedule."""
    return {
        TURNAROUND: float(np.mean(end_s - problem.jobs.release_s)),
        WAIT: float(np.mean(start_s - problem.jobs.release_s)),
        MAKESPAN: float(end_s.max()),
        ENERGY: float(energy_j.sum()),
    }


def best_known(problem: Problem, found: list[FoundSchedule]) -> dict[str, float]:
    """Return of each measure the best of the schedules that were found."""
    measured = [measures_of(problem, one) for one in found]
    return {measure: min(one[measure] for one in measured) for measure in measured[0]}


def _front_row(
    problem: Problem, instance: Instance, point: FrontPoint, own: dict[str, float]
) -> dict[str, float | None]:
    """Return a point of the front in plain values: the rate, and the three numbers."""
    known = min(point.cost_s(instance, measures_of(problem, one)) for one in point.found)
    policy = point.cost_s(instance, own) if own else None
    known = known if policy is None else min(known, policy)
    rate = point.rate_s_per_j(instance)
    return {"s_per_j": rate, "bound_s": point.bound_s(instance), "best_known_s": known, "policy_s": policy}


def measures_of(problem: Problem, found: FoundSchedule) -> dict[str, float]:
    """Return the measures of a schedule that was found. Raises: EngineError if its replay finds a rule broken."""
    start_s = found.start / problem.tick_hz
    end_s = start_s + problem.jobs.run_s[found.option]
    checked = replay(problem, found.option, start_s, end_s)
    if checked.broken or checked.above_cap:
        raise EngineError(checked.broken or "a schedule that was found exceeds the cap", where="best schedule known")
    return figures(problem, start_s, end_s, problem.jobs.energy_j[found.option])


def replayed_policy(inputs: RunInputs, window: BoundWindow, problem: Problem) -> tuple[PolicyRun | None, ScheduleCheck]:
    """Run the policy on a window; return its schedule and what a replay of it found, or None and why there is none."""
    policy, undefined = run_policy(inputs, window, problem)
    if policy is None:
        return None, ScheduleCheck(undefined)
    return policy, replay(problem, policy.option, policy.start_s, policy.end_s)


def run_policy(inputs: RunInputs, window: BoundWindow, problem: Problem) -> tuple[PolicyRun | None, str]:
    """Run the policy on a window; return its schedule, or None and why there is none to compare."""
    jobs, k = window.jobs, window.running
    try:
        run = simulate(
            jobs, inputs.machine, inputs.policy, cap=inputs.cap, targets=inputs.targets, actual=inputs.physics,
            past=window.past,
        )  # fmt: skip
    except PolicyError as error:
        return None, f"the policy does not run on a window: {error}"
    schedule = run.schedule
    missing = np.flatnonzero(~schedule.ran)
    if len(missing):
        return None, f"job {jobs.job_id[missing[0]]} never ran under the policy"
    if (schedule.start_s[:k] > window.begin_s - BEFORE_S).any():
        late = jobs.job_id[int(np.argmax(schedule.start_s[:k] > window.begin_s - BEFORE_S))]
        return None, f"job {late}, which ran when the window began, did not go on at once under the policy"
    option = rows_of_options(problem.jobs, schedule.option[k:].astype(np.int64))
    if (option < 0).any():
        return None, f"job {problem.jobs.names[int(np.argmax(option < 0))]} ran at a clock that the bound leaves out"
    start_s, end_s = schedule.start_s[k:] - window.begin_s, schedule.end_s[k:] - window.begin_s
    return PolicyRun(option, start_s, end_s, schedule.energy_j[k:], WorkDone.of(jobs, schedule)), ""
