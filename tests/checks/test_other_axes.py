"""The public suite on every part of the other axes, and on parts with one fault each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from wattqueue.checks.in_a_run import MOST_JOBS
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.checks.suite import check_part, checks_of
from wattqueue.errors import PolicyError
from wattqueue.model.budgets import Budget
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Series, Signals
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StopNode
from wattqueue.parts.contracts import Entries, Floats, Ints, Prediction, Start
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.interfaces import METHODS
from wattqueue.policy.registry import part_class, part_names
from wattqueue.policy.view import View

JOBS, MACHINE = sample_jobs(MOST_JOBS), sample_machine()
FOUND = [(axis, name) for axis in METHODS if axis != "estimator" for name in part_names(axis)]


def nothing_measured(_view: View, _job: int) -> None:
    """A source of measurements that never has one."""


def idle_sockets(view: View) -> Floats:
    """A source of measured watts: every socket draws as little as it can."""
    return np.zeros(view.machine.units)


LONG = "check_no_leak_among_more_jobs"
"""Thousands of jobs: with kernels as plain Python some parts take minutes for them."""


@pytest.mark.parametrize(("axis", "name"), FOUND, ids=str)
def test_every_part_passes_every_check(axis: str, name: str) -> None:
    made: Any = part_class(axis, name)
    if name == "app-check":  # refused without a source of measurements
        made = partial(made, measure=nothing_measured, period_s=3_600.0)
    if name == "lower-measured":
        made = partial(made, period_s=600.0)  # 3,000 calls, not 180,000
    if name in {"rapl-redistribution", "rapl-lending"}:
        made = partial(made, measure=idle_sockets, period_s=86_400.0)  # 21 calls, not 450,000
    if name == "delay-consenting":  # refused without prices
        made = partial(made, prices=Series(np.array([0.0, 3_600.0]), np.array([90.0, 30.0])))
    if name == "energy-budgets":  # refused without a budget
        days = np.arange(0.0, 400 * 86_400.0, 86_400.0, dtype=np.float64)
        made = partial(made, budgets=(Budget("b", frozenset(), 10**12, "kWh", days),))
    if name == "margin":  # refused without a factor
        made = partial(made, factor=1.1)
    if name in {"benchmark", "unit-factors"}:  # refused without a table
        units = tuple(map(str, range(MACHINE.units)))
        app = "cholesky" if name == "benchmark" else JOBS.app.names[0]
        made = partial(made, table=UnitTable.of_watts([app], units, np.linspace(90.0, 110.0, len(units))[None]))
    checks = dict(checks_of(axis, made))
    assert len(checks) >= 6
    for each in checks.keys() - {LONG}:
        checks[each](made, JOBS, MACHINE)


@pytest.mark.compiled
@pytest.mark.parametrize(("axis", "name"), [(a, n) for a, n in FOUND if LONG in dict(checks_of(a, part_class(a, n)))])
def test_every_part_passes_among_more_jobs(axis: str, name: str) -> None:
    made = part_class(axis, name)
    dict(checks_of(axis, made))[LONG](made, JOBS, MACHINE)


class FirstFit:
    """A sound pass in plain Python."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, watts, taken, starts = view.free.copy(), view.available_w, set(), []
        for entry in view.queue.tolist():
            job, p = view.entry_job(entry), view.entry_partition(entry)
            option = self.option(view, entry)
            net_w = view.net_watts(job, option)
            if job not in taken and view.jobs.nodes[job] <= free[p] and net_w <= watts and self.wants(view, job):
                starts.append(Start(entry, option))
                taken.add(job)
                free[p] -= view.jobs.nodes[job]
                watts -= net_w
        return starts

    def option(self, view: View, entry: int) -> int:
        return view.entry_options(entry)[0]

    def wants(self, view: View, job: int) -> bool:
        return True


class ReadsRunTimes(FirstFit):
    def wants(self, view: View, job: int) -> bool:
        return bool(view.jobs.runtime_s[job] < 5_000.0 or len(view.running) == 0)  # type: ignore[attr-defined]


class ReadsTheFuture(FirstFit):
    def wants(self, view: View, job: int) -> bool:
        later = view.jobs.nodes[view.jobs.submit_s > view.now_s]
        return bool(later.sum() % 2 == 0 or len(view.running) == 0)


class Writes(FirstFit):
    def schedule(self, view: View) -> Sequence[Start]:
        view.jobs.walltime_s[0] += 1.0
        return []


class Draws(FirstFit):
    def wants(self, view: View, job: int) -> bool:
        return bool(np.random.default_rng().random() < 0.5 or len(view.running) == 0)


class StartsTooMuch(FirstFit):
    def schedule(self, view: View) -> Sequence[Start]:
        return [Start(entry, view.entry_options(entry)[0]) for entry in view.queue.tolist()]


class StartsFromNothing(FirstFit):
    def schedule(self, view: View) -> Sequence[Start]:
        return [Start(0, 0)] if len(view.queue) == 0 else super().schedule(view)


class ReturnsNumbers(FirstFit):
    def schedule(self, view: View) -> Any:
        return view.queue.tolist()


class Hoards(FirstFit):
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def wants(self, view: View, job: int) -> bool:
        self.seen.append(bytes(200_000))
        return True


class KeepsALambda(FirstFit):
    def __init__(self) -> None:
        self.key = lambda job: job


class NoCode:
    queue_depth = 0
    code = 77
    pass_interval_s = 0.0


class Reranked(Fcfs):
    """Shortest first, asked again at each pass."""

    def rerank(self, view: View) -> Floats:
        return -view.jobs.walltime_s[view.kernel.entries.job[view.queue]]


class RerankedByRunTime(Fcfs):
    def rerank(self, view: View) -> Floats:
        return -np.asarray(view.jobs.runtime_s[view.kernel.entries.job[view.queue]])  # type: ignore[attr-defined]


class RerankedShort(Fcfs):
    def rerank(self, view: View) -> Floats:
        return np.zeros(1)


class Twice(Fcfs):
    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        once = super().entries(jobs, prediction, machine)
        return Entries(np.repeat(once.job, 2), np.repeat(once.partition, 2), np.repeat(once.priority, 2))


class Elsewhere:
    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        zeros = np.zeros(len(entries.job), np.int32)
        return zeros, zeros


class NeedsARow:
    """Forgets that jobs may share rows of the prediction."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        prediction.power_w[entries.job]
        first = machine.option_start[entries.partition]
        return first, first


class Narrow:
    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        return np.zeros((apps, 2))


class Negative:
    def margin_w(self, view: View) -> float:
        return -5.0


class Steers:
    """A sound control with every sort of action."""

    period_s = 900.0
    events = frozenset({"completion"})

    def act(self, view: View) -> Sequence[Action]:
        running = view.running.tolist()
        changes: list[Action] = [SetFrequency(view.job_id(job), 1) for job in running[:1]]
        return [*changes, StopNode(3), *(Requeue(view.job_id(job)) for job in running[8:9])]


class Unheard(Steers):
    events = frozenset({"breakfast"})


class SteersByRunTime(Steers):
    def act(self, view: View) -> Sequence[Action]:
        return [
            SetFrequency(view.job_id(job), 1)
            for job in view.running.tolist()
            if view.jobs.runtime_s[job] > 2_000.0  # type: ignore[attr-defined]
        ]


@pytest.mark.parametrize(("axis", "sound"), [("backfill", FirstFit), ("order", Reranked), ("controls", Steers)])
def test_sound_parts_pass(axis: str, sound: type[Any]) -> None:
    check_part(axis, sound, JOBS, MACHINE)


@pytest.mark.parametrize(
    ("axis", "faulty", "named"),
    [
        ("backfill", ReadsRunTimes, "answers"),
        ("backfill", ReadsTheFuture, "no_leak"),
        ("backfill", Writes, "pure"),
        ("backfill", Draws, "deterministic"),
        ("backfill", StartsTooMuch, "answers"),
        ("backfill", StartsFromNothing, "empty"),
        ("backfill", ReturnsNumbers, "answers"),
        ("backfill", Hoards, "bounded_memory"),
        ("backfill", KeepsALambda, "deterministic"),
        ("backfill", NoCode, "attributes"),
        ("order", RerankedByRunTime, "answers_of_rerank"),
        ("order", RerankedShort, "answers_of_rerank"),
        ("order", Twice, "shapes"),
        ("frequency", Elsewhere, "shapes"),
        ("placement", Narrow, "shapes"),
        ("ledger", Negative, "answers"),
        ("controls", Unheard, "attributes"),
        ("controls", SteersByRunTime, "answers"),
    ],
)
def test_each_fault_is_found_by_its_check(axis: str, faulty: type[Any], named: str) -> None:
    check = dict(checks_of(axis, faulty))[f"check_{named}"]
    with pytest.raises(PolicyError) as caught:
        check(faulty, JOBS, MACHINE)
    assert caught.value.where == faulty.__name__
    assert caught.value.hint


def test_shared_rows_are_tried() -> None:
    with pytest.raises(IndexError):
        dict(checks_of("frequency", NeedsARow))["check_shapes"](NeedsARow, JOBS, MACHINE)


def test_an_unknown_axis_is_named() -> None:
    with pytest.raises(PolicyError) as caught:
        list(checks_of("colour", FirstFit))
    assert "'colour'" in caught.value.what


class Ranked:
    """Highest numbers first."""

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        return np.tile(-np.arange(machine.units, dtype=np.float64), (apps, 1))


class RankedByNothing(Ranked):
    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        return np.full((apps, machine.units), np.nan)


def test_a_placement_that_ranks_units_is_sound() -> None:
    check_part("placement", Ranked, JOBS, MACHINE)
    with pytest.raises(PolicyError) as caught:
        check_part("placement", RankedByNothing, JOBS, MACHINE)
    assert caught.value.where == "RankedByNothing"
