"""The policy's own schedule of a window, by the rows of its problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats
from wattqueue.runs.perform import RunInputs
from wattqueue.sim.engine import simulate
from wattqueue_studies.bound.check import ScheduleCheck, replay
from wattqueue_studies.bound.instance import Whole
from wattqueue_studies.bound.problem import JobChoices, Problem
from wattqueue_studies.bound.windows import BEFORE_S, BoundWindow


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRun:
    """A schedule in seconds from the window's begin, by rows of ``JobChoices``. Shapes (n,)."""

    option: Whole
    start_s: Floats
    end_s: Floats
    energy_j: Floats
    work: WorkDone

    def order(self) -> Whole:
        """Return the jobs by start. Shape (n,)."""
        return np.argsort(self.start_s, kind="stable").astype(np.int64)


def rows_of_options(options: JobChoices, option: Whole) -> Whole:
    """Return the row of each of the first jobs at an option of the machine; -1 for one that it lacks. Shape (f,)."""
    found = np.full(len(option), -1, np.int64)
    job = options.job[: options.first[len(option)]]
    rows = np.flatnonzero(options.option[: len(job)] == option[job])
    found[job[rows]] = rows
    return found


def replayed_policy(inputs: RunInputs, window: BoundWindow, problem: Problem) -> tuple[PolicyRun | None, ScheduleCheck]:
    """Run the policy on a window; return its schedule and what a replay of it found, or None and why there is none."""
    jobs, k = window.jobs, window.running
    try:
        run = simulate(
            jobs, inputs.machine, inputs.policy, cap=inputs.cap, targets=inputs.targets, actual=inputs.physics,
            past=window.past,
        )  # fmt: skip
    except PolicyError as error:
        return None, ScheduleCheck(f"the policy does not run on a window: {error}")
    schedule = run.schedule
    option = rows_of_options(problem.jobs, schedule.option[k:].astype(np.int64))
    for bad, what in (
        (~schedule.ran, "never ran under the policy"),
        (
            schedule.start_s[:k] > window.begin_s - BEFORE_S,
            "which ran when the window began, did not go on at once under the policy",
        ),
        (np.append(np.zeros(k, bool), option < 0), "ran at a clock that the bound leaves out"),
    ):
        if bad.any():
            return None, ScheduleCheck(f"job {jobs.job_id[int(np.argmax(bad))]} {what}")
    start_s, end_s = schedule.start_s[k:] - window.begin_s, schedule.end_s[k:] - window.begin_s
    found = PolicyRun(option, start_s, end_s, schedule.energy_j[k:], WorkDone.of(jobs, schedule))
    return found, replay(problem, option, start_s, end_s)
