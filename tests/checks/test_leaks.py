"""Parts of every axis that use the future: each is found; oracles that declare themselves, and sound parts, pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.checks.suite import check_part, checks_of
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StopNode, WakeNode
from wattqueue.parts.contracts import Entries, Floats, Ints, Prediction
from wattqueue.parts.frequency.highest import Highest
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.parts.runtime.last_two import LastTwo
from wattqueue.policy.view import View

JOBS, MACHINE = sample_jobs(60), sample_machine()


class ShortestFirst(Fcfs):
    """An order that knows run times: the cheat that a user would try first."""

    def key(self, jobs: KnownJobs) -> Floats:
        return -np.asarray(jobs.runtime_s)  # type: ignore[attr-defined]

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        found = super().entries(jobs, prediction, machine)
        return Entries(found.job, found.partition, np.asarray(self.key(jobs)[found.job], np.float64))


class LongJobsLast(ShortestFirst):
    """Only jobs beyond a threshold are put back."""

    def key(self, jobs: KnownJobs) -> Floats:
        return np.where(jobs.runtime_s > 6_000.0, -1.0, 0.0)  # type: ignore[attr-defined]


class HungryLast(ShortestFirst):
    def key(self, jobs: KnownJobs) -> Floats:
        return np.asarray(-np.nan_to_num(jobs.max_power_w))  # type: ignore[attr-defined]


class HungryLastByItsMethod(ShortestFirst):
    def key(self, jobs: KnownJobs) -> Floats:
        return np.asarray(-np.nan_to_num(jobs.peak_power_w()))  # type: ignore[attr-defined]


class EarliestStartFirst(ShortestFirst):
    def key(self, jobs: KnownJobs) -> Floats:
        return -np.asarray(jobs.start_s)  # type: ignore[attr-defined]


class AsksForTheTruth(ShortestFirst):
    """Goes the way of an oracle without saying so."""

    def key(self, jobs: KnownJobs) -> Floats:
        return -jobs.truth.runtime_s


class FreedFirst(ShortestFirst):
    """Reads an outcome that an import keeps in a further column."""

    def key(self, jobs: KnownJobs) -> Floats:
        return np.asarray(jobs.extra["energy_j"], np.float64)


class MoreToCome(ShortestFirst):
    """Jobs go before others where few are submitted after them."""

    def key(self, jobs: KnownJobs) -> Floats:
        return np.array(
            [((jobs.submit_s > s) & (jobs.submit_s < s + 90_000.0)).sum() for s in jobs.submit_s], np.float64
        )


class LeavesOutLosers(Fcfs):
    """Which entries exist is a decision, too."""

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        found = super().entries(jobs, prediction, machine)
        keep = jobs.runtime_s[found.job] < 20_000.0  # type: ignore[attr-defined]
        return Entries(found.job[keep], found.partition[keep], found.priority[keep])


class Declared(AsksForTheTruth):
    knows_future = True


class SmallestFirst(ShortestFirst):
    """Sound: what users request is public, and scaling by the largest request changes no decision."""

    def key(self, jobs: KnownJobs) -> Floats:
        return -jobs.nodes * jobs.walltime_s / float((jobs.nodes * jobs.walltime_s).max(initial=1.0))


class SlowWhereMoreComes(Highest):
    """A window that depends on rows of the prediction that later jobs have."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        first, _ = super().window(jobs, entries, prediction, machine, signals)
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
        return [SetFrequency(view.job_id(max(running, key=lambda job: view.jobs.runtime_s[job])), 1)]  # type: ignore[attr-defined]


class SlowsNearTheEnd(Control):
    """Reads how long each job still has to run."""

    def act(self, view: View) -> Sequence[Action]:
        short = [job for job in view.running.tolist() if view.jobs.runtime_s[job] < 900.0]  # type: ignore[attr-defined]
        return [SetFrequency(view.job_id(job), 1) for job in short]


class KeepsTheTable(Control):
    """Looks at later jobs in the table that it was given first, which no changed copy replaces."""

    events = frozenset({"arrival"})

    def __init__(self) -> None:
        self.jobs: KnownJobs | None = None

    def act(self, view: View) -> Sequence[Action]:
        self.jobs = self.jobs or view.jobs
        later = self.jobs.nodes[self.jobs.submit_s > view.now_s]
        return [SetFrequency(view.job_id(job), 1) for job in view.running.tolist() if (later.sum() + job) % 2]


class DeclaredControl(Control):
    """The running job that really runs longest gives way."""

    knows_future = True

    def act(self, view: View) -> Sequence[Action]:
        running = view.running.tolist()
        return (
            [SetFrequency(view.job_id(max(running, key=lambda job: view.jobs.truth.runtime_s[job])), 1)]
            if running
            else []
        )


class RanksAgain(Fcfs):
    """Re-ranks by run times."""

    def rerank(self, view: View) -> Floats:
        return -np.asarray(view.jobs.runtime_s[view.kernel.entries.job[view.queue]], np.float64)  # type: ignore[attr-defined]


class LearnsFromTheEnds(Control):
    """Sound: which jobs are slowed follows from the jobs that have ended after more than an hour."""

    def act(self, view: View) -> Sequence[Action]:
        long = int((view.jobs.observed.runtime_s > 3_600.0).sum())
        return [SetFrequency(view.job_id(job), 1) for job in view.running.tolist() if (job + long) % 2]


with_outcomes = sample_jobs(60)
with_outcomes.extra["energy_j"] = np.arange(60.0)[::-1].copy()

BY_OUTCOME: list[tuple[str, type[Any], Jobs]] = [
    ("order", ShortestFirst, JOBS),
    ("order", LongJobsLast, JOBS),
    ("order", HungryLast, JOBS),
    ("order", HungryLastByItsMethod, JOBS),
    ("order", EarliestStartFirst, JOBS),
    ("order", FreedFirst, with_outcomes),
    ("order", LeavesOutLosers, JOBS),
    ("order", AsksForTheTruth, JOBS),
    ("order", RanksAgain, JOBS),
    ("controls", RequeuesTheLongest, JOBS),
    ("controls", SlowsNearTheEnd, JOBS),
]
BY_LATER_JOBS: list[tuple[str, type[Any]]] = [
    ("order", MoreToCome),
    ("frequency", SlowWhereMoreComes),
    ("placement", RanksByTheTrace),
    ("controls", KeepsTheTable),
]


@pytest.mark.parametrize(("axis", "cheat", "jobs"), BY_OUTCOME)
def test_reading_an_outcome_is_an_error_that_names_the_part(axis: str, cheat: type[Any], jobs: Jobs) -> None:
    with pytest.raises(PolicyError) as caught:
        check_part(axis, cheat, jobs, MACHINE)
    assert caught.value.where == cheat.__name__
    assert "knows_future" in (caught.value.hint or "")


@pytest.mark.parametrize(("axis", "cheat"), BY_LATER_JOBS)
def test_use_of_later_jobs_is_found(axis: str, cheat: type[Any]) -> None:
    found = []
    for name, check in checks_of(axis, cheat):
        try:
            check(cheat, JOBS, MACHINE)
        except PolicyError as error:
            found.append((name, error.where))
    assert [name for name, where in found if "no_leak" in name and where == cheat.__name__], found


def test_what_the_driver_tells_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of whole runs looks behind the table: here the simulator hands out the true run times as ends."""

    def told(part: object, jobs: Jobs, observed: Observed | None = None) -> KnownJobs:
        early = replace(observed or Observed.nothing(len(jobs)), end_s=jobs.submit_s + jobs.runtime_s)
        return KnownJobs.of(jobs, early)

    monkeypatch.setattr("wattqueue.sim.world.jobs_for", told)
    with pytest.raises(PolicyError) as caught:
        check_part("controls", LearnsFromTheEnds, JOBS, MACHINE)
    assert caught.value.where == "LearnsFromTheEnds"


@pytest.mark.parametrize(
    ("axis", "part"),
    [
        ("order", Declared),
        ("order", SmallestFirst),
        ("controls", DeclaredControl),
        ("controls", Control),
        ("controls", LearnsFromTheEnds),
    ],
)
def test_oracles_that_declare_themselves_and_sound_parts_pass(axis: str, part: type[Any]) -> None:
    check_part(axis, part, JOBS, MACHINE)


class RequeuesForEver(Control):
    """No job ever ends."""

    period_s = 60.0

    def act(self, view: View) -> Sequence[Action]:
        return [Requeue(view.job_id(job)) for job in view.running.tolist()]


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


class LongRunsOfTheTrace(LastTwo):
    """Run times that know how much is submitted later."""

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        super().seconds(jobs, machine)
        self.later = float(jobs.walltime_s.sum())

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        return np.full(len(rows), 10.0 + self.later % 7.0)


class ReadsItsRunTime(LastTwo):
    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        super().seconds(jobs, machine)
        self.known = jobs

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        return np.asarray(self.known.runtime_s[rows])  # type: ignore[attr-defined]


class DeclaredOracle(ReadsItsRunTime):
    knows_future = True

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        return self.known.truth.runtime_s[rows]


@pytest.mark.parametrize("part", [LongRunsOfTheTrace, ReadsItsRunTime])
def test_run_times_that_use_the_future_are_found(part: type[Any]) -> None:
    with pytest.raises(PolicyError):
        check_part("runtime", part, JOBS, MACHINE)


def test_an_oracle_of_run_times_that_declares_itself_passes() -> None:
    check_part("runtime", DeclaredOracle, JOBS, MACHINE)
