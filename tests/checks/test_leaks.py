"""Parts of every axis that use the future: each is found; oracles that declare themselves, and sound parts, pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.checks.suite import check_part, checks_of
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StopNode, WakeNode
from wattqueue.parts.contracts import Entries, Floats, Ints, Prediction
from wattqueue.parts.frequency.highest import Highest
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.view import View

JOBS, MACHINE = sample_jobs(60), sample_machine()


class ShortestFirst(Fcfs):
    """An order that knows run times: the cheat that a user would try first."""

    def key(self, jobs: Jobs) -> Floats:
        return -jobs.runtime_s

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries:
        found = super().entries(jobs, prediction, machine)
        return Entries(found.job, found.partition, np.asarray(self.key(jobs)[found.job], np.float64))


class LongJobsLast(ShortestFirst):
    """Only jobs beyond a threshold are put back."""

    def key(self, jobs: Jobs) -> Floats:
        return np.where(jobs.runtime_s > 6_000.0, -1.0, 0.0)


class HungryLast(ShortestFirst):
    def key(self, jobs: Jobs) -> Floats:
        assert jobs.max_power_w is not None
        return -np.nan_to_num(jobs.max_power_w)


class EarliestStartFirst(ShortestFirst):
    def key(self, jobs: Jobs) -> Floats:
        return -jobs.submit_s if jobs.start_s is None else -jobs.start_s


class FreedFirst(ShortestFirst):
    """Reads an outcome that an import keeps in a further column."""

    def key(self, jobs: Jobs) -> Floats:
        return np.asarray(jobs.extra["energy_j"], np.float64)


class MoreToCome(ShortestFirst):
    """Jobs go before others where few are submitted after them."""

    def key(self, jobs: Jobs) -> Floats:
        return np.array(
            [((jobs.submit_s > s) & (jobs.submit_s < s + 90_000.0)).sum() for s in jobs.submit_s], np.float64
        )


class LeavesOutLosers(Fcfs):
    """Which entries exist is a decision, too."""

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries:
        found = super().entries(jobs, prediction, machine)
        keep = jobs.runtime_s[found.job] < 20_000.0
        return Entries(found.job[keep], found.partition[keep], found.priority[keep])


class Declared(ShortestFirst):
    knows_future = True


class SmallestFirst(ShortestFirst):
    """Sound: what users request is public, and scaling by the largest request changes no decision."""

    def key(self, jobs: Jobs) -> Floats:
        return -jobs.nodes * jobs.walltime_s / float((jobs.nodes * jobs.walltime_s).max(initial=1.0))


class SlowWhereMoreComes(Highest):
    """A window that depends on rows of the prediction that later jobs have."""

    def window(self, entries: Entries, prediction: Prediction, machine: Machine) -> tuple[Ints, Ints]:
        first, _ = super().window(entries, prediction, machine)
        end = machine.option_start[entries.partition + 1] - 1
        total = prediction.power_w.sum()
        return (first, first) if int(total) % 2 else (end.astype(np.int32), end.astype(np.int32))


class RanksByTheTrace:
    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        rng = np.random.default_rng(int(prediction.power_w.sum()))
        return rng.random((apps, machine.units))


class Control:
    period_s = 900.0
    events: frozenset[str] = frozenset()

    def act(self, view: View) -> Sequence[Action]:
        return []


class RequeuesTheLongest(Control):
    """The running job that really runs longest gives way: no threshold that a change may miss."""

    def act(self, view: View) -> Sequence[Action]:
        running = view.running.tolist()
        if len(view.queue) == 0 or len(running) < 3:
            return []
        return [SetFrequency(view.job_id(max(running, key=lambda job: view.jobs.runtime_s[job])), 1)]


class SlowsNearTheEnd(Control):
    """Reads how long each job still has to run."""

    def act(self, view: View) -> Sequence[Action]:
        short = [job for job in view.running.tolist() if view.jobs.runtime_s[job] < 900.0]
        return [SetFrequency(view.job_id(job), 1) for job in short]


class KeepsTheTable(Control):
    """Reads the table that it was given first, which no copy with another future replaces."""

    def __init__(self) -> None:
        self.runtime_s: Floats | None = None

    def act(self, view: View) -> Sequence[Action]:
        if self.runtime_s is None:
            self.runtime_s = view.jobs.runtime_s.copy()
        return [SetFrequency(view.job_id(job), 1) for job in view.running.tolist() if self.runtime_s[job] > 4_000.0]


class DeclaredControl(RequeuesTheLongest):
    knows_future = True


class RanksAgain(Fcfs):
    """Keeps the table of the first call and re-ranks by it."""

    def __init__(self) -> None:
        self.runtime_s: Floats | None = None

    def rerank(self, view: View) -> Floats:
        if self.runtime_s is None:
            self.runtime_s = view.jobs.runtime_s.copy()
        return -np.asarray(self.runtime_s[view.kernel.entries.job[view.queue]], np.float64)


with_outcomes = sample_jobs(60)
with_outcomes.extra["energy_j"] = np.arange(60.0)[::-1].copy()

CHEATS: list[tuple[str, type[Any], Jobs]] = [
    ("order", ShortestFirst, JOBS),
    ("order", LongJobsLast, JOBS),
    ("order", HungryLast, JOBS),
    ("order", EarliestStartFirst, JOBS),
    ("order", FreedFirst, with_outcomes),
    ("order", MoreToCome, JOBS),
    ("order", LeavesOutLosers, JOBS),
    ("order", RanksAgain, JOBS),
    ("frequency", SlowWhereMoreComes, JOBS),
    ("placement", RanksByTheTrace, JOBS),
    ("controls", RequeuesTheLongest, JOBS),
    ("controls", SlowsNearTheEnd, JOBS),
    ("controls", KeepsTheTable, JOBS),
]


@pytest.mark.parametrize(("axis", "cheat", "jobs"), CHEATS)
def test_a_cheat_is_found(axis: str, cheat: type[Any], jobs: Jobs) -> None:
    found = []
    for name, check in checks_of(axis, cheat):
        try:
            check(cheat, jobs, MACHINE)
        except PolicyError as error:
            found.append((name, error.where))
    assert [name for name, where in found if "no_leak" in name and where == cheat.__name__], found


@pytest.mark.parametrize(
    ("axis", "part"),
    [("order", Declared), ("order", SmallestFirst), ("controls", DeclaredControl), ("controls", Control)],
)
def test_oracles_that_declare_themselves_and_sound_parts_pass(axis: str, part: type[Any]) -> None:
    check_part(axis, part, JOBS, MACHINE)


class RequeuesForEver(Control):
    """No job ever ends."""

    period_s = 60.0

    def act(self, view: View) -> Sequence[Action]:
        return [Requeue(job) for job in view.job_ids(view.running)]


class TogglesNodes(Control):
    period_s = 60.0

    def act(self, view: View) -> Sequence[Action]:
        odd = int(view.now_s // 60.0) % 2
        return [(StopNode if odd else WakeNode)(unit) for unit in range(view.machine.units)]


@pytest.mark.parametrize("endless", [RequeuesForEver, TogglesNodes])
def test_a_control_without_end_is_bounded(endless: type[Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        check_part("controls", endless, JOBS, MACHINE)
    assert caught.value.where == endless.__name__
    assert caught.value.hint
