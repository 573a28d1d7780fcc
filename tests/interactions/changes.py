"""What the features of the interaction matrix are made of: changes of a draft, and parts in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.interactions.counters import Change
from tests.interactions.worlds import APPS, CLOCKS, Draft
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Series
from wattqueue.parts.actions import Action, Requeue, Resume, SetDeviceLimits, SetFrequency, Suspend
from wattqueue.parts.contracts import Start
from wattqueue.parts.controls.delay_consenting import DelayConsenting
from wattqueue.parts.corrections.unit_factors import UnitFactors
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.parts.order.all_partitions import AllPartitions
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.view import View


def choose(**row: Any) -> Change:
    """Make choices of the policy."""
    return lambda draft: draft.row.update(row)


def unset(*axes: str) -> Change:
    """Go back to the defaults of some choices."""

    def change(draft: Draft) -> None:
        for axis in axes:
            draft.row.pop(axis, None)

    return change


def control(made: Any) -> Change:
    return lambda draft: draft.controls.append(made)


def default(draft: Draft, **row: Any) -> None:
    for axis, value in row.items():
        draft.row.setdefault(axis, value)


def add_targets(draft: Draft) -> None:
    """Two load targets, the second one announced."""
    if not draft.targets:
        level = [round(float(each), 3) for each in draft.rng.uniform(0.28, 0.4, 2)]
        draft.targets = [(20.0, 65.0, level[0], 0.0, np.inf), (110.0, 170.0, level[1], 35.0, np.inf)]


def ramps(draft: Draft) -> None:
    add_targets(draft)
    draft.targets = [(*row[:4], 0.008) for row in draft.targets]


def add_consent(draft: Draft) -> None:
    """Most jobs consent, some do not; a few state limits."""
    if "allowed" not in draft.consent:
        rng, n = draft.rng, draft.n
        draft.consent["allowed"] = (rng.random(n) < 0.65).astype(float)


def uses_consent(draft: Draft) -> None:
    """Targets, consent, and something that asks for it."""
    add_targets(draft)
    add_consent(draft)


def add_sensor(draft: Draft) -> None:
    if draft.sensor is None:
        draft.sensor = PowerSensor(sample_s=5.0, poll_s=5.0)


def reads_sensors(draft: Draft) -> None:
    """A ledger of measured watts where no other was chosen, else a control that reads the sensors."""
    default(draft, ledger="measured")
    if draft.row["ledger"] not in ("measured", "in-flight") and "rapl-redistribution" not in draft.controls:
        draft.controls.append("rapl-redistribution")


def lowers_measured(draft: Draft) -> None:
    """Back below the cap by limits, then by jobs that consent."""
    draft.controls.append({"part": "lower-measured", "period_s": 7.0})


def exceeds(draft: Draft) -> None:
    """Sensors, jobs that opted in, and a cap that falls below what runs where it does not move anyway."""
    add_sensor(draft)
    add_consent(draft)
    if len(draft.cap) == 1:
        high = draft.cap[0][1]
        draft.cap = [(-np.inf, high), (25.0, 0.5 * high), (90.0, high)]


def more_partitions(draft: Draft) -> None:
    """A second partition, with more watts a node; some jobs name one of both."""
    if len(draft.parts) == 1:
        draft.columns["partition"] = draft.rng.choice(["", "", "p0", "p1"], draft.n)
        first = draft.parts[0]
        draft.parts = [{**first, "nodes": 4}, {**first, "nodes": 3, "idle_w": 50.0, "max_w": 240.0, "dvfs_beta": 0.3}]


def factors(draft: Draft) -> None:
    """Units that differ, in truth and by a table."""
    draft.unit_factor = True
    draft.row["estimator"] = unit_watts(draft)


def physics(draft: Draft) -> None:
    draft.physics = True


def no_physics(draft: Draft) -> None:
    draft.physics = False


def unit_watts(draft: Draft) -> Any:
    return lambda: UnitWatts(table=draft.table(draft.machine()))


def corrected(draft: Draft) -> None:
    """Units that differ, in truth and behind a history, with run times by unit for placements."""
    draft.unit_factor = True
    draft.row["estimator"] = behind_a_history(draft)


def behind_a_history(draft: Draft) -> Any:
    def made() -> list[Any]:
        table = draft.table(draft.machine())
        timed = replace(table, time_factor=2.0 - table.factor)
        return ["history-mean", UnitFactors(table=timed), {"part": "margin", "factor": 1.05}]

    return made


def benchmark(draft: Draft) -> None:
    draft.row["placement"] = lambda: Benchmark(table=draft.table(draft.machine()), app=APPS[0])


def failures(draft: Draft) -> None:
    rng = draft.rng
    times = np.round(rng.uniform(5.0, 110.0, 4), 1)
    units = rng.choice(6, 4, replace=False).tolist()
    rows = list(zip(times.tolist(), units, strict=True))
    draft.failures = [(t, unit, False) for t, unit in rows] + [(t + 20.0, unit, True) for t, unit in rows]


def moving_cap(draft: Draft) -> None:
    high = draft.cap[0][1]
    draft.cap = [(-np.inf, high), (30.0, 0.42), (75.0, high), (120.0, 0.36), (180.0, 0.9)]


WINDOW = {"part": "frequency-window", "lowest_hz": 0.0}


def capped_windows(draft: Draft) -> None:
    """Any frequency; half of the users want to stay out of capped windows, and for a while there is no cap."""
    draft.row["frequency"] = [WINDOW, "capped-windows"]
    draft.columns.setdefault("extra", {})["capped_windows"] = draft.rng.integers(0, 2, draft.n).astype(float)


def by_price(draft: Draft) -> None:
    """Delays to where energy is cheaper, within some minutes."""
    prices = np.array([80.0, 20.0, 30.0, 90.0])
    draft.controls.append(lambda: DelayConsenting(prices=Series(np.array([0.0, 85.0, 105.0, 300.0]), prices)))


def not_by_price(draft: Draft) -> None:
    draft.controls = [each for each in draft.controls if getattr(each, "__qualname__", "").split(".")[0] != "by_price"]


def consents_to_delays(draft: Draft) -> None:
    """Most jobs consent, each up to a latest end."""
    add_consent(draft)
    columns = draft.columns
    longest = columns.get("walltime_s", columns["runtime_s"])
    draft.consent.setdefault("latest_end_s", np.asarray(columns["submit_s"]) + 20.0 * np.asarray(longest) + 600.0)


class Script:
    """A control that does at each tick what a function of tick and view says."""

    events: frozenset[str] = frozenset()

    def __init__(self, script: Callable[[int, View], Sequence[Action]], period_s: float) -> None:
        self.script, self.period_s, self.ticks = script, period_s, 0

    def begin(self) -> None:
        self.ticks = 0

    def act(self, view: View) -> Sequence[Action]:
        self.ticks += 1
        return self.script(self.ticks - 1, view)


def scripted(script: Callable[[int, View], Sequence[Action]], period_s: float = 7.0) -> Change:
    return control(lambda: Script(script, period_s))


def limit_devices(tick: int, view: View) -> Sequence[Action]:
    """Limit every second device to 130 W for a while."""
    devices = np.arange(view.machine.devices)[:: 2 if tick % 2 else 1]
    watts = np.diff(view.machine.device_start)[devices] * (90.0 if tick % 4 < 2 else np.inf)
    return [SetDeviceLimits(devices, watts)] if tick < 40 else []


def requeue_some(tick: int, view: View) -> Sequence[Action]:
    """Requeue the job that ends last, with most of its work kept."""
    rows = np.setdiff1d(view.running, view.suspended)
    if tick % 4 != 1 or tick > 30 or not len(rows):
        return []
    return [Requeue(view.job_id(int(rows[-1])), 1e9 if tick % 8 == 1 else 3.0)]


def requeues(draft: Draft) -> None:
    """Requeue jobs now and then; jobs write a checkpoint each 3 s."""
    draft.consent["checkpoint_s"] = np.full(draft.n, 3.0)
    scripted(requeue_some)(draft)


def suspend_some(tick: int, view: View) -> Sequence[Action]:
    """Suspend a job for two ticks."""
    found: list[Action] = [Resume(view.job_id(int(row))) for row in view.suspended] if tick % 3 == 2 else []
    rows = np.setdiff1d(view.running, view.suspended)
    if tick % 3 == 0 and tick < 25 and len(rows):
        found.append(Suspend(view.job_id(int(rows[0]))))
    return found


def change_frequencies(tick: int, view: View) -> Sequence[Action]:
    """Slow the job that ends last by one step, and let it return."""
    rows = np.setdiff1d(view.running, view.suspended)
    if not len(rows) or tick > 30:
        return []
    row = int(rows[-1])
    option = view.job_option(row)
    first = int(view.machine.option_start[view.machine.option_partition[option]])
    return [SetFrequency(view.job_id(row), first + (option - first + 1) % len(CLOCKS))]


class KeepsFree(Predicted):
    """A ledger in Python that keeps some watts free while jobs run."""

    def margin_w(self, view: View) -> float:
        return 60.0 * min(len(view.running), 2)


class LongestFirst:
    """An order in Python that ranks anew at each pass: jobs of much work first."""

    def entries(self, jobs: Any, prediction: Any, machine: Any) -> Any:
        self.nodes = jobs.nodes
        return AllPartitions().entries(jobs, prediction, machine)

    def rerank(self, view: View) -> Any:
        return np.array([float(self.nodes[view.entry_job(int(entry))]) for entry in view.queue])


class InTurn:
    """A pass in Python: entries in queue order while they fit, at the first option that does."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, room, found, begun = view.free.copy(), view.available_w, [], set()
        for entry in view.queue.tolist():
            job, p = view.entry_job(entry), view.entry_partition(entry)
            fits = [o for o in view.entry_options(entry) if view.net_watts(job, o) <= room]
            if job in begun or not fits or free[p] < view.jobs.nodes[job]:
                continue
            found.append(Start(entry, fits[0]))
            begun.add(job)
            free[p] -= view.jobs.nodes[job]
            room -= view.net_watts(job, fits[0])
        return found


def nothing(draft: Draft) -> None:
    """Add nothing."""


def windows_by_consent(draft: Draft) -> None:
    """Targets, consent, and windows of more than one option for jobs that consent."""
    uses_consent(draft)
    default(draft, frequency="target-at-start")


def asks_for_consent(draft: Draft) -> None:
    """A part that asks for consent, whatever else was chosen."""
    add_targets(draft)
    default(draft, frequency="target-at-start")
    if not any(name in draft.controls for name in ("park-consenting", "slow-consenting")):
        draft.controls.append("park-consenting")


def all_consent(draft: Draft) -> None:
    draft.consent["allowed"] = np.ones(draft.n)


def site_priorities(draft: Draft) -> None:
    draft.columns.setdefault("extra", {})["site_priority"] = draft.rng.integers(0, 4, draft.n).astype(float)


def sensor(made: PowerSensor) -> Change:
    def change(draft: Draft) -> None:
        draft.sensor = made

    return change


def units_are(unit: str) -> Change:
    def change(draft: Draft) -> None:
        draft.unit = unit

    return change


def scope(chosen: Any) -> Change:
    def change(draft: Draft) -> None:
        draft.scope = chosen

    return change


def profiles(draft: Draft) -> None:
    draft.phases_s = 4.0


def backfill_option(**options: Any) -> Change:
    """Set options of the pass; those that are no compiled pass take none."""

    def change(draft: Draft) -> None:
        draft.pass_options |= options

    return change
