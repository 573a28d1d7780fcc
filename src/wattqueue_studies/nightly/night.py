"""Replay a day under its cap, without it and under other rows, and bound what any schedule could reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.comparability import WorkDone, gate
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.oracles import oracles_of
from wattqueue.report import words
from wattqueue.runs.perform import RunInputs, TaskResult, load, perform, watts_stated
from wattqueue.runs.task import Task
from wattqueue.whatif.recorded import RecordedWaits, recorded_waits
from wattqueue_studies.bound.assess import Search, assess
from wattqueue_studies.bound.store import TURNAROUND, Proof
from wattqueue_studies.bound.windows import BoundWindow
from wattqueue_studies.nightly.day import Day, DayRecord

ROWS = (
    *("fcfs", "first-fit", "easy", "easy-sjbf", "conservative", "easy+rt-last-two", "easy+pc-mean", "easy+pc-max"),
    *("easy+pc-adaptive-1", "slurm-priority"),
)
"""Rows that are replayed beside the site's own."""
NO_CAP = "no cap"
"""Name of the replay under the site's own row without a cap."""
CAP_SLACK_S = 1.0
"""A row that was above the cap for so much longer than the site's own bought its waits with watts."""
Shown = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RowNight:
    """What a replay of the day says of one row.

    Attributes:
        row: Its name.
        wait_s: Mean wait of the day's jobs that ran, from midnight on; None where none did.
        energy_j: Their energy.
        above_s: Time above the cap, by true watts.
        change_s: ``wait_s`` less that of the site's own row; None where the two may not be compared.
        why: Why they may not.
    """

    row: str
    wait_s: float | None
    energy_j: float
    above_s: float
    change_s: float | None
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """What a day showed.

    Attributes:
        day: Its date.
        machine: Name of the machine.
        policy: The site's own row.
        cap_w: Least and greatest cap of the day.
        jobs: Jobs that waited at midnight or were submitted that day.
        running: Jobs that ran at midnight.
        recorded: Waits of the jobs that had started, by the record and in the replay; None where none had.
        own: Under the site's own row.
        plain: The same without the cap.
        others: Under other rows.
        left_out: Rows that were not replayed, with the reason.
        bound: Mean turnaround in seconds: bound, best known, policy's, with scope and jobs; None for none.
        no_bound: Why there is none.
        notes: Sentences.
        proofs: What proves the bound.
    """

    day: str
    machine: str
    policy: str
    cap_w: tuple[float, float]
    jobs: int
    running: int
    recorded: RecordedWaits | None
    own: RowNight
    plain: RowNight
    others: tuple[RowNight, ...]
    left_out: Mapping[str, str]
    bound: Mapping[str, Any] | None
    no_bound: str
    notes: tuple[str, ...]
    proofs: Sequence[Proof] = ()

    @property
    def cost_s(self) -> float | None:
        """Return by how much the cap lengthened the mean wait; None where that cannot be said."""
        return None if self.plain.change_s is None else -self.plain.change_s

    def fair(self) -> list[RowNight]:
        """Return the other rows that may be compared: the same work, and not longer above the cap than the own row."""
        most_s = self.own.above_s + CAP_SLACK_S
        return [row for row in self.others if row.change_s is not None and row.above_s <= most_s]

    def values(self) -> dict[str, Any]:
        """Return plain values, without the proofs."""
        found = asdict(replace(self, proofs=()))
        del found["proofs"]
        return {**found, "cost_s": self.cost_s, "compared": [row.row for row in self.fair()]}


@dataclass(frozen=True, slots=True, eq=False)
class NightPlan:
    """What is replayed.

    Attributes:
        task: Policy and estimator of the site; its workload names the record.
        cap: The cap.
        row: The policy's row, where the record states it.
        rows: Names of other rows.
        bound_jobs: Jobs of the bound, 0 for none.
        search: How much is searched for the bound.
    """

    task: Task
    cap: Cap
    row: dict[str, Any] | None
    rows: Sequence[str]
    bound_jobs: int
    search: Search


def replay_night(recorded: DayRecord, day: Day, plan: NightPlan, told: Shown | None = None) -> Night:
    """Replay a day.

    Raises: InputError for a day without jobs, a record without watts, no cap, or one that no job could start under;
    PolicyError and MachineError as a simulation does for the site's own row.
    """
    machine, window = recorded.machine, recorded.window(day)
    cap_w = cap_of_day(plan.cap, day)
    if not watts_stated(window.jobs, machine):
        raise InputError(
            "neither the record nor the machine states watts", where=plan.task.workload,
            hint="state max_w in the machine file, or dump ConsumedEnergyRaw",
        )  # fmt: skip
    replays = _Replays(window, machine, plan)
    own = replays.perform(plan.task, plan.row, plan.cap)
    plain = replays.perform(plan.task, plan.row, Cap.none())
    others, left_out = [], {}
    for k, name in enumerate(plan.rows):
        if told is not None:
            told(k, len(plan.rows))
        try:
            found = replays.perform(replace(plan.task, policy=name, estimator=None), None, plan.cap)
        except WattQueueError as error:
            left_out[name] = str(error)
            continue
        if oracles := oracles_of(found.inputs.policy):
            left_out[name] = f"reads the future ({oracles})"
        else:
            others.append(replays.row_night(name, found, own))
    bound, no_bound, proofs = _bound(recorded, day, plan)
    scheduled = window.jobs.take(slice(window.running, None))
    seen = recorded_waits(scheduled, own.run.schedule.start_s[window.running :])
    return Night(
        day.name, machine.name, own.inputs.policy.name, cap_w, len(window.jobs) - window.running, window.running,
        seen, replays.row_night(own.inputs.policy.name, own, own), replays.row_night(NO_CAP, plain, own),
        tuple(others), left_out, bound, no_bound, (*recorded.notes, *replays.notes(own)), proofs,
    )  # fmt: skip


def cap_of_day(cap: Cap, day: Day) -> tuple[float, float]:
    """Return the least and the greatest cap of a day. Raises: InputError where there was none at a time."""
    times = np.concatenate(([day.begin_s], cap.time_s[(cap.time_s > day.begin_s) & (cap.time_s < day.end_s)]))
    watts = np.asarray(cap.at(times), np.float64)
    if not np.isfinite(watts).any():
        raise InputError(
            f"no cap was in force on {day.name}", where="--cap", hint="--cap 400kW, or cap_w in the machine file"
        )
    return float(watts.min()), float(watts.max())


@dataclass(frozen=True, slots=True, eq=False)
class _Replays:
    """Replays of a window."""

    window: BoundWindow
    machine: Machine
    plan: NightPlan

    def perform(self, task: Task, row: dict[str, Any] | None, cap: Cap) -> TaskResult:
        """Replay the window under a row and a cap. Raises as a simulation does."""
        return perform(_inputs(self.window, self.machine, task, row, cap))

    def row_night(self, name: str, found: TaskResult, own: TaskResult) -> RowNight:
        """Return what a replay says of its row, beside that of the own one."""
        may = gate(_work(own), _work(found), (own.inputs.policy.name, name))
        wait = self._waits(found)
        mean = float(wait.mean()) if len(wait) else None
        change = float((wait - self._waits(own)).mean()) if may.open and len(wait) else None
        above = found.metrics.get("cap_over_s")
        energy = float(found.run.schedule.energy_j[self.window.running :].sum())
        return RowNight(name, mean, energy, float(above or 0.0), change, may.why)

    def _waits(self, found: TaskResult) -> Any:
        """Return the waits of the scheduled jobs that ran."""
        first, schedule = self.window.running, found.run.schedule
        wait = schedule.start_s[first:] - found.run.jobs.submit_s[first:]
        return wait[schedule.ran[first:]]

    def notes(self, own: TaskResult) -> list[str]:
        """Return what a reader should know of the replays."""
        jobs, k = self.window.jobs, self.window.running
        peak = jobs.peak_power_w()
        unknown = len(jobs) if peak is None else int(np.isnan(peak).sum())
        late = int((own.run.schedule.start_s[:k] > self.window.begin_s).sum())
        said = (
            (unknown, "without known watts: the stated maximum of the units counts in every replay"),
            (late, "that ran at midnight without room beside the others under the cap in the replay: a wait there"),
        )
        return [f"{words.count(count, 'job')} {text}" for count, text in said if count]


def _work(found: TaskResult) -> WorkDone:
    """Return the work of a replay."""
    return WorkDone.of(found.run.jobs, found.run.schedule)


def _inputs(window: BoundWindow, machine: Machine, task: Task, row: dict[str, Any] | None, cap: Cap) -> RunInputs:
    """Return the inputs of a replay."""
    workload = Workload(window.jobs, Unusable(), "record", len(window.jobs))
    inputs = load(task, machine=machine, row=None if row is None else dict(row), cap=cap, workload=workload)
    return replace(inputs, past=window.past)


def _bound(recorded: DayRecord, day: Day, plan: NightPlan) -> tuple[dict[str, Any] | None, str, Sequence[Proof]]:
    """Return the bound of the day's first jobs, or why there is none, and what proves it."""
    if not plan.bound_jobs:
        return None, "none was asked for", ()
    if find_spec("highspy") is None:
        return None, "bounds need the package highspy: pip install 'wattqueue[bounds]'", ()
    window = recorded.window(day, plan.bound_jobs)
    count = len(window.jobs) - window.running
    inputs = _inputs(window, recorded.machine, plan.task, plan.row, plan.cap)
    try:
        found = assess(inputs, window, plan.search, {"day": day.name, "begin_s": day.begin_s, "jobs": count})
    except WattQueueError as error:
        return None, str(error), ()
    numbers = {
        "jobs": count,
        "scope": found.scope,
        "bound_s": found.bound[TURNAROUND],
        "best_known_s": found.best[TURNAROUND],
        "policy_s": found.policy.get(TURNAROUND),
        "gap": found.gap,
        "undefined": found.undefined,
        "wait_ratio": found.wait_ratio,
    }
    return numbers, "", found.proofs
