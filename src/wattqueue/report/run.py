"""One run, as a report sees it: what went in, when and where jobs ran, the power under its cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Ints, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Schedule, State
from wattqueue.model.signals import Cap

Metric = float | int | str | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Power in the cap's scope as a step series: a value holds from its time to the next. Shapes (k,).

    ``other_w`` is the part of ``power_w`` that no job draws; ``cap_w`` is ``inf`` where no cap holds.
    """

    time_s: Floats
    power_w: Floats
    other_w: Floats
    cap_w: Floats
    busy_units: Ints

    @classmethod
    def of(cls, power: PowerSeries, cap: Cap, machine: Machine, first_s: float) -> Series:
        """The power series from ``first_s`` on, with a row more wherever the cap changes within it.

        Before the series' first row the machine is powered and idle.
        """
        time, watts, busy = power.time_s, power.scope_w(machine.cap_scope), power.busy_units
        other = power.other_w if machine.cap_scope == "machine" else np.zeros(len(time))
        if not len(time) or time[0] > first_s:
            idle = machine.scope_idle_w()
            time, watts, other = (np.insert(c, 0, v) for c, v in ((time, first_s), (watts, idle), (other, idle)))
            busy = np.insert(busy, 0, 0)
        inside = (cap.time_s > time[0]) & (cap.time_s < time[-1])
        every = np.union1d(time, cap.time_s[inside])
        row = np.searchsorted(time, every, side="right") - 1
        return cls(every, watts[row], other[row], cap.at(every), busy[row])

    @property
    def limited(self) -> bool:
        """Whether a cap holds at any time."""
        return bool(np.isfinite(self.cap_w).any())


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Which units jobs held: job ``job[k]`` (row) held ``low[k]..high[k]``, both included. Shapes (m,)."""

    job: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, schedule: Schedule) -> Placed:
        """The intervals of a schedule, those of one job behind one another."""
        count = schedule.unit_count.astype(np.int64)
        job = np.repeat(np.arange(len(count), dtype=np.int32), count)
        # Position of each interval: first of its job plus its place within the job.
        within = np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
        where = np.repeat(schedule.unit_start, count) + within
        return cls(job, schedule.unit_low[where], schedule.unit_high[where])


@dataclass(frozen=True, slots=True)
class About:
    """Where a run comes from, in words that the report shows as they are; empty means unknown."""

    policy: str = ""
    estimator: str = ""
    workload: str = ""
    origin: str = "measured"
    """``measured`` or ``generated``: the jobs."""
    watts: str = ""
    """Whose figures the jobs' true watts are: ``workload``, ``workload in part`` or ``machine``."""
    machine: str = ""
    machine_source: str = ""
    cap: str = ""
    seed: int | None = None
    version: str = ""

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], machine: Machine, origin: str) -> About:
        """What a run's ``run.toml`` states, as far as a report shows it: its ``task``, its policy's row."""
        task = {"estimator": facts.get("policy", {}).get("estimator"), **facts.get("task", {})}
        seed = task.get("seed")
        return cls(
            policy=_word(task.get("policy")),
            estimator=_word(task.get("estimator")),
            workload=_word(task.get("workload")),
            origin=origin,
            watts=_word(facts.get("watts")),
            machine=machine.name,
            machine_source=machine.source,
            cap=_word(task.get("cap")),
            seed=seed if isinstance(seed, int) else None,
            version=_word(facts.get("wattqueue_version")),
        )


def _word(value: Any) -> str:
    """As text: a part with options stands for its name, a path for its last part."""
    if isinstance(value, Mapping):
        value = value.get("part")
    return "" if value is None else str(value).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run. Shapes (n,) a job of ``jobs``; times on the trace's clock, NaN for jobs that never ran.

    ``unit_w`` is the true mean power of one unit while the job ran, ``predicted_w`` what the ledger
    counted for one unit, ``frequency_hz`` the frequency it started at (NaN where none is stated).
    """

    about: About
    jobs: Jobs
    start_s: Floats
    end_s: Floats
    state: NDArray[np.int8]
    unit_w: Floats
    predicted_w: Floats
    frequency_hz: Floats
    placed: Placed
    series: Series
    cap: Cap
    partitions: tuple[tuple[str, int], ...]
    """Name and number of units of each partition, in the order in which units are numbered."""
    unit: str = "node"
    cap_scope: str = "machine"
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        jobs: Jobs,
        schedule: Schedule,
        power: PowerSeries,
        machine: Machine,
        cap: Cap,
        *,
        metrics: Mapping[str, Any],
        about: About,
    ) -> Run:
        """A run from what the simulator returned, so that nothing is read back from files."""
        lasted = schedule.end_s - schedule.start_s
        with np.errstate(invalid="ignore", divide="ignore"):
            unit_w = schedule.energy_j / (jobs.nodes * lasted)
        series = Series.of(power, cap, machine, float(jobs.submit_s.min()))
        if not series.power_w.any():
            unit_w = np.full(len(jobs), np.nan)  # neither the trace nor the machine states watts
        frequency = np.append(machine.option_frequency_hz, np.nan)[schedule.option]
        return cls(
            about,
            jobs,
            schedule.start_s,
            schedule.end_s,
            schedule.state,
            unit_w,
            schedule.predicted_w / jobs.nodes,
            frequency,
            Placed.of(schedule),
            series,
            cap,
            tuple((p.name, p.units) for p in machine.partitions),
            machine.partitions[0].unit,
            machine.cap_scope,
            dict(metrics),
        )

    @property
    def has_watts(self) -> bool:
        """Whether the trace or the machine states any watts; without them power and energy are unknown, not 0."""
        return bool(self.series.power_w.any())

    @property
    def units(self) -> int:
        """Units of all partitions."""
        return sum(n for _, n in self.partitions)

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Jobs that ran to an end. Shape (n,)."""
        return np.isin(self.state, (State.COMPLETED, State.KILLED))

    @property
    def first_s(self) -> float:
        """Zero of the report's time axes: the first submission."""
        return float(self.jobs.submit_s.min())

    @property
    def last_s(self) -> float:
        """End of the report's time axes: the end of the last job."""
        return float(max(np.nanmax(self.end_s, initial=self.first_s), self.series.time_s[-1]))

    @property
    def wait_s(self) -> Floats:
        """Waits of the jobs that ran, in their order. Shape (number that ran,)."""
        ran = self.ran
        return (self.start_s - self.jobs.submit_s)[ran]

    @property
    def bounded_slowdown(self) -> Floats:
        """max(1, turnaround / max(run, 10 s)) of the jobs that ran. Shape (number that ran,)."""
        ran = self.ran
        run_s = np.maximum((self.end_s - self.start_s)[ran], 10.0)
        turnaround: Floats = (self.end_s - self.jobs.submit_s)[ran]
        return np.maximum(1.0, turnaround / run_s)
