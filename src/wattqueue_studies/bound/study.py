"""Bounds on the windows of a run: choose the windows, assess each, and say what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.tariff import Tariff
from wattqueue.model.jobs import Floats
from wattqueue.parts.memory import with_needed_units
from wattqueue.policy.policy import policy_from_row
from wattqueue.report.document import Document, Table
from wattqueue.runs.perform import RunInputs
from wattqueue.sim.engine import simulate
from wattqueue_studies.bound.assess import Assessed, Clock, Search, assess, truth_of, window_problem
from wattqueue_studies.bound.bill import BoundedBill, billed, limit_of
from wattqueue_studies.bound.front import FrontPoint
from wattqueue_studies.bound.problem import instance_of
from wattqueue_studies.bound.store import ADMISSION, ENERGY, MAKESPAN, MEASURES, STRICT, TURNAROUND, WAIT, Proof
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
        summaries = {name: summary(values) for name, values in self.ratios().items()}
        windows = [one.as_json() for one in self.windows]
        return {"workload": self.name, "policy": self.policy, "windows": windows, "summary": summaries}

    def document(self) -> Document:
        """Return the tables; of the front that of the first window."""
        first = self.windows[0]
        front = [_front(first.front)] if first.front else []
        blocks: list[Any] = [self._turnaround(), self._others(), *front, *self._bills(), *self._sentences()]
        return Document(title=f"Bounds of {self.name}", lede=NEVER_OPTIMAL, blocks=[*blocks, NEVER_OPTIMAL])

    def _turnaround(self) -> Table:
        """Return a row for each window, and its summary."""
        heads = ("Window", "jobs", "bound\ns", "best\nknown s", "policy\ns", "bound /\nbest", "wait\nratio")
        rows = []
        for one in self.windows:
            numbers = (_cell(numbers.get(TURNAROUND), ",.0f") for numbers in (one.bound, one.best, one.policy))
            ratios = f"{one.ratio(TURNAROUND):.3f}", f"{one.wait_ratio:.3f}", _cell(one.gap, ".1%")
            rows.append((_window(one), f"{one.window['jobs']:,}", *numbers, *ratios))
        title = f"Mean turnaround of {self.policy}, from the begin of the window"
        return Table((*heads, "policy\nabove bound"), rows, title, kinds=["", *["n"] * 7])

    def _others(self) -> Table:
        """Return the other measures: bound, best schedule known, policy; over several windows the means."""
        rows = []
        columns = [[getattr(one, name) for one in self.windows] for name in ("bound", "best", "policy")]
        for measure in MEASURES[1:]:
            scale, unit = (3.6e6, "kWh") if measure == ENERGY else (1.0, "s")
            values = ([numbers[measure] / scale for numbers in column if numbers] for column in columns)
            cells = (_cell(float(np.mean(each)) if each else None, ",.6g") for each in values)
            rows.append((f"{NAMES[measure]}, {unit}", *cells))
        many = ", means over the windows" if len(self.windows) > 1 else ""
        heads = ("Measure", "bound", "best known", "policy")
        return Table(heads, rows, f"Other measures{many}", kinds=["", *["n"] * 3])

    def _bills(self) -> Iterator[Table]:
        """Yield a table for each series of prices: the least bill of each window."""
        for k, first in enumerate(self.windows[0].bills):
            rows = [(_window(one), *_bill_cells(one.bills[k])) for one in self.windows]
            heads = ("Window", "waits up\nto h", "bound", "best\nknown", "policy", "bound /\nbest", "idle")
            note = "Idle: of all units up to the last end that is allowed; the same for every schedule."
            if any(one.bills[k].policy is not None and one.bills[k].undefined for one in self.windows):
                note += " * a job waits longer than the limit, which bound and best known keep."
            yield Table(heads, rows, f"Bill above idle in {first.amount}", note, kinds=["", *["n"] * 6])

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
            ratios = self.ratios()
            for name, key in (("Bound over best known", TURNAROUND), ("Wait ratio", "wait_ratio")):
                least, median, mean = summary(ratios[key]).values()
                many = f"{len(self.windows)} windows"
                said.append(f"{name}: least {least:.3f}, median {median:.3f}, mean {mean:.3f} of {many}.")
        said += [self.verdict()] if self.verdict() else []
        for one in self.windows:
            more = []
            if one.undefined:
                more.append(f"the policy is compared with no bound: {one.undefined}")
            if one.scope == ADMISSION:
                more.append(
                    "the run was above a fallen cap, so its bound is that of admission; "
                    f"the strict one is {one.bounds[STRICT][TURNAROUND]:,.0f} s"
                )
            more += one.remarks
            more += [
                f"the policy's bill in {bill.amount} is compared with no bound: {bill.undefined}"
                for bill in one.bills
                if bill.undefined
            ]
            seed = f"seed {one.window['seed']}: " if "seed" in one.window else ""
            said += [f"Note: {seed}{each}." for each in more]
        return said

    def proofs(self) -> list[Proof]:
        """Return what proves the bounds, window by window."""
        return [proof for one in self.windows for proof in one.proofs]


def _window(one: Assessed) -> str:
    """Return what identifies a window in tables."""
    return f"seed {one.window['seed']}" if "seed" in one.window else "all jobs"


def _cell(value: float | None, form: str) -> str:
    """Return a number as text; a dash for none."""
    return "–" if value is None else f"{value:{form}}".replace("%", " %")


def _front(front: Sequence[FrontPoint]) -> Table:
    """Return a front: what a kWh costs in seconds, and the three numbers."""
    rows = [
        (
            f"{point.rate * 3.6e6:,.4g} s",
            *(_cell(each, ",.0f") for each in (point.bound_s, point.best_s, point.policy_s)),
        )
        for point in front
    ]
    heads = ("A kWh costs", "bound s", "best known s", "policy s")
    return Table(heads, rows, "Mean turnaround and energy together", kinds=["", *["n"] * 3])


def _bill_cells(bill: BoundedBill) -> tuple[str, ...]:
    """Return the cells of a window's bill behind its name."""
    mark = "*" if bill.policy is not None and bill.undefined else ""
    bound, best, policy, idle = (_cell(each, ",.2f") for each in (bill.bound, bill.best, bill.policy, bill.idle))
    return f"{bill.limit.limit_s / 3_600:g}", bound, best, policy + mark, _cell(bill.ratio, ".3f"), idle


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


def refuse_others(proofs: Sequence[Proof], inputs: RunInputs, tariffs: Sequence[tuple[Tariff, float]]) -> None:
    """Refuse proofs that are not of these inputs, and prices. Raises: InputError naming the window."""
    for proof in proofs:
        count = proof.window.get("jobs") if "seed" in proof.window else None
        ((_, window),) = Windows(count, [proof.window.get("seed", 1)]).cut(inputs)
        problem = window_problem(inputs, window)
        instance = instance_of(problem.for_admission() if proof.scope == ADMISSION else problem)
        if "tariff" in proof.window:
            limit_s = proof.window["wait_limit_s"]
            asked = proof.window["tariff"], proof.window.get("wait_limit_asked_s", limit_s)
            found = [tariff for tariff, limit_s in tariffs if (tariff.source.unit, limit_s) == asked]
            if not found:
                raise InputError(
                    f"its bill is in {asked[0]}, and no such prices are given", where="certificate",
                    hint="give --prices or --intensity, and --wait-limit, as when it was computed",
                )  # fmt: skip
            limit = limit_of(found[0], problem, window.begin_s, (limit_s, asked[1]))
            instance = billed(instance, problem, limit)
        if instance.digest() != proof.instance.digest():
            raise InputError(
                "is a proof of another instance", where="certificate",
                hint="give workload, machine, cap and policy as when it was computed",
            )  # fmt: skip
