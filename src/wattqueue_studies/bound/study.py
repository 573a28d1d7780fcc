"""Bounds on the windows of a run: choose the windows, assess each, and say what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.parts.gpus import with_needed_units
from wattqueue.policy.policy import policy_from_row
from wattqueue.report.document import Document, Table
from wattqueue.runs.perform import RunInputs
from wattqueue.sim.engine import simulate
from wattqueue_studies.bound.assess import Assessed, Clock, Search, assess, limits_of, truth_of, window_problem
from wattqueue_studies.bound.bill import BoundedBill, TariffLimit, billed
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import Problem, instance_of
from wattqueue_studies.bound.store import ADMISSION, ENERGY, MAKESPAN, MEASURES, TURNAROUND, WAIT, Proof
from wattqueue_studies.bound.windows import BoundWindow, busy_instant, cut_window, whole_window

MOST_JOBS = 2_000
"""Most jobs of a window."""
NAMES = {TURNAROUND: "mean turnaround", WAIT: "mean wait", MAKESPAN: "makespan", ENERGY: "energy of jobs"}
NEVER_OPTIMAL = (
    "The bound holds for every schedule, with run times and watts known. The best schedule known is the best that was "
    "found, and a replay of its own has checked it; it need not be the best possible."
)


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Which windows of a run are assessed.

    Attributes:
        count: Jobs of a window; None for the whole workload.
        seeds: Seeds that draw the windows.
    """

    count: int | None
    seeds: Sequence[int]

    def cut(self, inputs: RunInputs) -> Iterator[tuple[dict[str, object], BoundWindow]]:
        """Yield the windows, with what identifies each.

        Raises: InputError for a workload that is too long, or has no such window.
        """
        jobs = with_needed_units(inputs.jobs, inputs.machine)
        if self.count is None:
            if len(jobs) > MOST_JOBS:
                raise InputError(
                    f"{len(jobs):,} jobs, at most {MOST_JOBS:,}", where=inputs.task.workload,
                    hint="--window 200 --windows 10 draws windows of 200 jobs",
                )  # fmt: skip
            window = whole_window(jobs)
            yield {"begin_s": window.begin_s, "jobs": len(jobs)}, window
            return
        run = simulate(
            jobs, inputs.machine, inputs.policy, cap=inputs.cap, targets=inputs.targets, actual=inputs.physics
        )
        option = np.maximum(run.schedule.option, 0)
        factor = truth_of(inputs, jobs).factors(np.arange(len(jobs), dtype=np.int32), option)
        for seed in self.seeds:
            begin_s = busy_instant(jobs, run.schedule, self.count, seed)
            window = cut_window(jobs, run.schedule, begin_s, self.count, factor)
            yield {"seed": seed, "begin_s": begin_s, "jobs": self.count}, window


@dataclass(frozen=True, slots=True, eq=False)
class BoundStudy:
    """All windows, assessed.

    Attributes:
        name: What was assessed, for headings.
        policy: Name of the policy.
        windows: What was found, by window.
    """

    name: str
    policy: str
    windows: list[Assessed]

    def ratios(self) -> dict[str, list[float]]:
        """Return the ratio of bound and best schedule known in each window, by measure, and that of waits."""
        found = {measure: [one.ratio(measure) for one in self.windows] for measure in MEASURES}
        return {**found, "wait_ratio": [one.wait_ratio for one in self.windows]}

    def as_json(self) -> dict[str, Any]:
        """Return every figure."""
        return {
            "workload": self.name,
            "policy": self.policy,
            "windows": [
                {
                    **one.window,
                    "scope": one.scope,
                    "bound": one.bound,
                    **({"strict_bound": one.strict} if one.scope == ADMISSION else {}),
                    "best_known": one.best,
                    "policy": one.policy or None,
                    "ratio": {measure: one.ratio(measure) for measure in MEASURES},
                    "wait_ratio": one.wait_ratio,
                    "gap": one.gap,
                    "undefined": one.undefined,
                    "remarks": one.remarks,
                    "seconds": one.seconds,
                    **({"front": one.front} if one.front else {}),
                    **({"bills": [bill.as_json() for bill in one.bills]} if one.bills else {}),
                }
                for one in self.windows
            ],
            "summary": {name: summary(values) for name, values in self.ratios().items()},
        }

    def document(self) -> Document:
        """Return the tables."""
        front = [self._front()] if any(one.front for one in self.windows) else []
        blocks: list[Any] = [self._turnaround(), self._others(), *front, *self._bills(), *self._sentences()]
        return Document(title=f"Bounds of {self.name}", lede=NEVER_OPTIMAL, blocks=[*blocks, NEVER_OPTIMAL])

    def _turnaround(self) -> Table:
        """Return a row for each window, and its summary."""
        heads = (
            "Window",
            "jobs",
            "bound\ns",
            "best\nknown s",
            "policy\ns",
            "bound /\nbest",
            "wait\nratio",
            "policy\nabove bound",
        )
        rows = [
            (
                self._window(one),
                f"{one.window['jobs']:,}",
                f"{one.bound[TURNAROUND]:,.0f}",
                f"{one.best[TURNAROUND]:,.0f}",
                f"{one.policy[TURNAROUND]:,.0f}" if one.policy else "–",
                f"{one.ratio(TURNAROUND):.3f}",
                f"{one.wait_ratio:.3f}",
                "–" if one.gap is None else f"{100 * one.gap:.1f} %",
            )
            for one in self.windows
        ]
        return Table(
            heads, rows, f"Mean turnaround of {self.policy}, from the begin of the window", kinds=["", *["n"] * 7]
        )

    def _others(self) -> Table:
        """Return the other measures: bound, best schedule known, policy; over several windows the means."""
        rows = []
        for measure in MEASURES[1:]:
            values = [
                [numbers[measure] for numbers in column if numbers]
                for column in (
                    [one.bound for one in self.windows],
                    [one.best for one in self.windows],
                    [one.policy for one in self.windows],
                )
            ]
            scale, unit = (3.6e6, "kWh") if measure == ENERGY else (1.0, "s")
            rows.append(
                (f"{NAMES[measure]}, {unit}", *(f"{np.mean(each) / scale:,.6g}" if each else "–" for each in values))
            )
        many = ", means over the windows" if len(self.windows) > 1 else ""
        return Table(
            ("Measure", "bound", "best known", "policy"), rows, f"Other measures{many}", kinds=["", *["n"] * 3]
        )

    def _front(self) -> Table:
        """Return the front of turnaround and energy: of several windows the first."""
        names = ("bound_s", "best_known_s", "policy_s")
        rows = [
            (
                f"{(row['s_per_j'] or 0.0) * 3.6e6:,.4g} s",
                *("–" if row[name] is None else f"{row[name]:,.0f}" for name in names),
            )
            for row in self.windows[0].front
        ]
        heads = ("A kWh costs", "bound s", "best known s", "policy s")
        return Table(heads, rows, "Mean turnaround and energy together", kinds=["", *["n"] * 3])

    def _bills(self) -> Iterator[Table]:
        """Yield a table for each series of prices: the least bill of each window."""
        for k, first in enumerate(self.windows[0].bills):
            rows = [(self._window(one), *_bill_cells(one.bills[k])) for one in self.windows]
            heads = ("Window", "bound", "best\nknown", "policy", "bound /\nbest", "idle")
            title = f"Bill above idle in {first.amount}, waits up to {first.limit_s / 3_600:g} h"
            note = "Idle: of all units up to the last end that is allowed; the same for every schedule."
            yield Table(heads, rows, title, note, kinds=["", *["n"] * 5])
            if first.front:
                yield self._bill_front(first)

    def _bill_front(self, bill: BoundedBill) -> Table:
        """Return the front of turnaround and a bill."""
        rows = [
            (
                f"{row['s_per_amount'] or 0.0:,.4g} s",
                *("–" if row[name] is None else f"{row[name]:,.0f}" for name in ("bound_s", "best_known_s")),
            )
            for row in bill.front
        ]
        title = f"Mean turnaround and bill together, waits up to {bill.limit_s / 3_600:g} h"
        return Table((f"1 {bill.amount} costs", "bound s", "best known s"), rows, title, kinds=["", "n", "n"])

    @staticmethod
    def _window(one: Assessed) -> str:
        """Return what identifies a window in tables."""
        return f"seed {one.window['seed']}" if "seed" in one.window else "all jobs"

    def verdict(self) -> str:
        """Return how far the policy is from the proven bound, as a sentence; empty where that is not defined."""
        defined = [one.gap for one in self.windows if one.gap is not None]
        if not defined:
            return ""
        over = f" (median of {len(defined)} windows)" if len(defined) > 1 else ""
        gap = 100 * float(np.median(defined))
        return f"{self.policy} is within {gap:.1f} % of the proven bound on mean turnaround{over}."

    def _sentences(self) -> list[str]:
        """Return what was found, in sentences."""
        said = []
        if len(self.windows) > 1:
            for name, values in (
                ("Bound over best known", self.ratios()[TURNAROUND]),
                ("Wait ratio", self.ratios()["wait_ratio"]),
            ):
                least, median, mean = summary(values).values()
                said.append(
                    f"{name}: least {least:.3f}, median {median:.3f}, mean {mean:.3f} of {len(values)} windows."
                )
        said += [self.verdict()] if self.verdict() else []
        for one in self.windows:
            seed = f"seed {one.window['seed']}: " if "seed" in one.window else ""
            if one.undefined:
                said.append(f"{seed}the policy is compared with no bound: {one.undefined}.")
            if one.scope == ADMISSION:
                said.append(
                    f"{seed}the run was above a fallen cap, so its bound is that of admission; "
                    f"the strict one is {one.strict[TURNAROUND]:,.0f} s."
                )
            said += [f"Note: {seed}{remark}." for remark in one.remarks]
            said += [
                f"{seed}no schedule was found in which no job waits more than {bill.limit_s / 3_600:g} h."
                for bill in one.bills[:1]
                if bill.best is None
            ]
            said += [
                f"{seed}the policy's bill in {bill.amount} is compared with no bound: {bill.undefined}."
                for bill in one.bills
                if bill.undefined
            ]
        return said

    def proofs(self) -> list[Proof]:
        """Return what proves the bounds, window by window."""
        return [proof for one in self.windows for proof in one.proofs]


def _billed_as(proof: Proof, instance: Instance, problem: Problem, limits: Sequence[TariffLimit]) -> Instance:
    """Return the instance with the prices that a proof is of. Raises: InputError where they are not given."""
    asked = proof.window["tariff"], proof.window.get("wait_limit_s")
    found = [limit for limit in limits if (limit.unit, limit.limit_s) == asked]
    if not found:
        raise InputError(
            f"its bill is in {asked[0]}, and no such prices are given", where="certificate",
            hint="give --prices or --intensity, and --wait-limit, as when it was computed",
        )  # fmt: skip
    return billed(instance, problem, found[0])


def _bill_cells(bill: BoundedBill) -> tuple[str, ...]:
    """Return the cells of a window's bill behind its name."""
    amounts = ("–" if each is None else f"{each:,.2f}" for each in (bill.bound, bill.best, bill.policy))
    return (*amounts, "–" if bill.ratio is None else f"{bill.ratio:.3f}", f"{bill.idle:,.2f}")


def summary(values: Sequence[float] | Floats) -> dict[str, float]:
    """Return least, median and mean."""
    return {"least": float(np.min(values)), "median": float(np.median(values)), "mean": float(np.mean(values))}


def bound_windows(
    inputs: RunInputs,
    windows: Windows,
    search: Search,
    name: str,
    told: Callable[[int, int], None] | None = None,
    clock: Clock = lambda: 0.0,
) -> BoundStudy:
    """Assess all windows of a run; ``clock`` returns seconds of the processor.

    Raises: InputError for one that cannot be assessed.
    """
    found = []
    total = 1 if windows.count is None else len(windows.seeds)
    for facts, window in windows.cut(inputs):
        policy = policy_from_row(inputs.policy.name, inputs.policy.row)  # no window knows what others taught it
        found.append(assess(replace(inputs, policy=policy), window, search, facts, clock))
        if told is not None:
            told(len(found), total)
    return BoundStudy(name, inputs.policy.name, found)


def refuse_others(proofs: Sequence[Proof], inputs: RunInputs, search: Search) -> None:
    """Refuse proofs that are not of these inputs. Raises: InputError naming the window."""
    for proof in proofs:
        count = proof.window.get("jobs") if "seed" in proof.window else None
        ((_, window),) = Windows(count, [proof.window.get("seed", 1)]).cut(inputs)
        problem = window_problem(inputs, window, search)
        instance = instance_of(problem.for_admission() if proof.scope == ADMISSION else problem)
        if "tariff" in proof.window:
            instance = _billed_as(proof, instance, problem, limits_of(window, problem, search))
        if instance.digest() != proof.instance.digest():
            raise InputError(
                "is a proof of another instance", where="certificate",
                hint="give workload, machine, cap and policy as when it was computed",
            )  # fmt: skip
