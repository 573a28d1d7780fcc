"""One run as a report needs it: inputs, when and where jobs ran, and the power under its cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.comparability import WorkDone
from wattqueue.model.domain_load import added_w, domain_loads
from wattqueue.model.holding import held_by_domain
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import TAU_S, CapFigures, cap_figures, span, waits_so_far
from wattqueue.model.schedule import HeldUnits, PowerSeries, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps, excess_w, with_times

Metric = float | int | str | bool | None
"""A value of metrics.json."""


@dataclass(frozen=True, slots=True)
class About:
    """Where a run comes from, as words that the report prints unchanged; empty means unknown.

    Attributes:
        policy: Name of the policy.
        estimator: Name of the estimator.
        workload: Name of the trace, or the generator with its options.
        origin: Whether the jobs are ``measured`` or ``generated``.
        watts: Whose figures the jobs' true watts are: ``workload``, ``workload in part`` or ``machine``.
        machine: Name of the machine.
        machine_source: Where the machine's figures come from.
        cap: The cap as it was requested.
        seed: Seed of a generated workload.
        version: Version of WattQueue that made the run.
        epoch_s: Unix time of the trace's 0; None where the trace has no dates.
        energy_origin: Share of the energy of jobs by origin (``model.energy_origin``), empty if not recorded.
        oracle: Parts of the policy that knew the future, by name; empty for none.
        physics: For how many jobs each source of physics was used, by text; empty for none.
        truth: Hash of the physics; empty for none.
        bound: How far the run is from a proven bound, as a sentence; empty where nobody has asked.
    """

    policy: str = ""
    estimator: str = ""
    workload: str = ""
    origin: str = "measured"
    watts: str = ""
    machine: str = ""
    machine_source: str = ""
    cap: str = ""
    seed: int | None = None
    version: str = ""
    epoch_s: float | None = None
    energy_origin: Mapping[str, float] = field(default_factory=dict)
    oracle: str = ""
    physics: Mapping[str, int] = field(default_factory=dict)
    truth: str = ""
    bound: str = ""

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], machine: Machine, origin: str) -> About:
        """Return what the ``run.toml`` of a run states, as far as a report shows it."""
        from wattqueue.formats.rundir.folder import truth_of

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
            epoch_s=_number(facts.get("epoch_s")),
            energy_origin=dict(facts.get("energy_origin", {})),
            oracle=_word(facts.get("oracle")),
            physics=dict(facts.get("physics", {})),
            truth=truth_of(facts),
            bound=str(facts.get("bound", "")),
        )


def _number(value: Any) -> float | None:
    """Return a number as a float, None for anything else."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _word(value: Any) -> str:
    """Return a value as text: a part with options by its name, a path by its last component, None as empty.

    The parts of a list are joined by commas: an estimator and its corrections.
    """
    if isinstance(value, list):
        return ",".join(map(_word, value))
    if isinstance(value, Mapping):
        value = value.get("part")
    return "" if value is None else str(value).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, eq=False)
class DomainCurve:
    """A power domain over time: its input by the true mean watts of jobs, and its limit."""

    name: str
    limit: Steps
    input: Steps

    held_s: float = 0.0
    """Seconds for which it held back the job that had waited longest."""

    @property
    def excess(self) -> Steps:
        """Return how far the input is above the limit."""
        time, row = with_times(self.input.time_s, self.limit.time_s)
        return Steps(time, excess_w(self.input.value[row], self.limit.at(time)))

    @property
    def headroom(self) -> Steps:
        """Return the limit less the input; below 0 where that is above it."""
        time, row = with_times(self.input.time_s, self.limit.time_s)
        return Steps(time, self.limit.at(time) - self.input.value[row])


def domain_curves(
    jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap, unit_w: Floats
) -> tuple[DomainCurve, ...]:
    """Return the domains with a limit; none where no watts are known. ``unit_w`` (n,): true watts of a unit."""
    if not machine.supply or np.isnan(unit_w[schedule.ran]).any() or not schedule.ran.any():
        return ()
    domains = machine.supply_tree.domains
    net = np.where(schedule.ran, added_w(machine, schedule, unit_w), 0.0)
    loads = domain_loads(machine, schedule, np.array([domain.least_limit_w for domain in domains]))
    first = float(jobs.submit_s.min())
    limits = {
        one.name: Steps(np.array(one.limit_s or (first,)), np.array(one.limits_w or (one.least_limit_w,)))
        for one in domains
    }
    depth = {one.name: len(list(machine.supply_tree.path(k))) for k, one in enumerate(domains)}
    held_s = {domains[k].name: seconds for k, seconds in held_by_domain(jobs, schedule, machine, cap).items()}
    ran_s = schedule.start_s, schedule.end_s
    return tuple(
        DomainCurve(load.name, limits[load.name], load.input_w(first, ran_s, net), held_s.get(load.name, 0.0))
        for load in sorted(loads, key=lambda load: depth[load.name])
    )


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """One run. Arrays have shape (n,), one element per row of ``jobs``; times are on the trace's clock.

    Attributes:
        about: Origin of the run.
        jobs: The workload.
        start_s: Start, NaN for jobs that never ran.
        end_s: End, NaN for jobs that never ran.
        state: ``State`` of each job.
        work: What decides whether the run may be compared with another.
        unit_w: True mean power of one unit while the job ran; NaN where no watts are known.
        predicted_w: What the ledger counted for one unit.
        frequency_hz: Frequency at the start, NaN where none is stated.
        placed: Units that jobs held.
        power: Watts of what the cap covers; means over at most 20 s where jobs have phases.
        idle: The part of ``power`` that no job draws: idle nodes in scope ``machine``, else 0.
        busy: Units that run a job.
        cap: The cap, with the load targets in it.
        partitions: Name and number of units of each partition, in the order in which units are numbered.
        unit: What a unit is: ``node``, ``socket`` or ``core``.
        cap_scope: What the cap covers (rule 14 of docs/semantics.md).
        metrics: Metrics by name; those of the cap are exact, with phases.
        domains: Power domains that have a limit, those that feed others first; empty where no watts are known.
    """

    about: About
    jobs: Jobs
    start_s: Floats
    end_s: Floats
    state: NDArray[np.int8]
    work: WorkDone
    unit_w: Floats
    predicted_w: Floats
    frequency_hz: Floats
    placed: HeldUnits
    power: Steps
    idle: Steps
    busy: Steps
    cap: Cap
    partitions: tuple[tuple[str, int], ...]
    unit: str = "node"
    cap_scope: str = "machine"
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    domains: tuple[DomainCurve, ...] = ()

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
    ) -> RunData:
        """Build a run from what the simulator returned, so that nothing has to be read back from files."""
        lasted = schedule.end_s - schedule.start_s
        with np.errstate(invalid="ignore", divide="ignore"):
            unit_w = schedule.energy_j / (jobs.nodes * lasted)
        kept = cap_figures(power, machine, cap, *span(jobs, schedule))
        power = power.from_start(machine, float(jobs.submit_s.min()))
        time, watts = power.time_s, power.scope_w(machine.cap_scope)
        if not watts.any():
            unit_w = np.full(len(jobs), np.nan)  # neither the trace nor the machine states watts
        # Option -1 of a job that never ran reads the appended NaN.
        frequency = np.append(machine.option_frequency_hz, np.nan)[schedule.option]
        return cls(
            about,
            jobs,
            schedule.start_s,
            schedule.end_s,
            schedule.state,
            WorkDone.of(jobs, schedule, about.truth),
            unit_w,
            schedule.predicted_w / jobs.nodes,
            frequency,
            HeldUnits.of(schedule),
            Steps(time, watts),
            Steps(time, power.other_w if machine.cap_scope == "machine" else np.zeros(len(time))),
            Steps(time, power.busy_units),
            cap,
            tuple((p.name, p.units) for p in machine.partitions),
            machine.partitions[0].unit,
            machine.cap_scope,
            {**kept._asdict(), **metrics},
            domain_curves(jobs, schedule, machine, cap, unit_w),
        )

    @property
    def has_watts(self) -> bool:
        """Return whether the trace or the machine states any watts.

        Without them power and energy are unknown, not 0.
        """
        return bool(self.power.value.any())

    @property
    def units(self) -> int:
        """Return the number of units of all partitions."""
        return sum(n for _, n in self.partitions)

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs ran to an end. Shape (n,)."""
        return np.isin(self.state, (State.COMPLETED, State.KILLED))

    @property
    def first_s(self) -> float:
        """Return the zero of the report's time axes: the first submission."""
        return float(self.jobs.submit_s.min())

    @property
    def epoch_s(self) -> float | None:
        """Return the Unix time of the first submission; None where the trace has no dates."""
        return None if self.about.epoch_s is None else self.about.epoch_s + self.first_s

    @property
    def last_s(self) -> float:
        """Return the end of the report's time axes: the end of the last job or of the power series."""
        return float(max(np.nanmax(self.end_s, initial=self.first_s), self.power.time_s[-1]))

    @property
    def span_s(self) -> tuple[float, float]:
        """Return the ends of the time axes; a second apart at least, so that there are means over time."""
        return self.first_s, max(self.last_s, self.first_s + 1.0)

    @property
    def caps_w(self) -> Floats:
        """Return the finite caps in force during the run, in order of time. Shape (k,), 0 where none was."""
        return self._finite(self.cap.alone)

    @property
    def targets_w(self) -> Floats:
        """Return the limits of load targets, and of the rises after them, that were below the cap. Shape (k,)."""
        return self._finite(self.cap.of_targets)

    @property
    def limit_name(self) -> str:
        """Return what the limit of the power is called; empty where there was none."""
        names = [name for name, watts in (("cap", self.caps_w), ("load target", self.targets_w)) if len(watts)]
        return "limit (cap, load target)" if len(names) > 1 else "".join(names)

    def _finite(self, limit: Cap) -> Floats:
        """Return the finite values of a limit during the run. Shape (k,)."""
        watts: Floats = limit.within(*self.span_s)[0]
        return watts[np.isfinite(watts)]

    @property
    def kept(self) -> CapFigures:
        """Return how the cap and the load targets were kept, from the metrics."""
        return CapFigures(*(_number(self.metrics.get(name)) for name in CapFigures._fields))

    @property
    def excess(self) -> Steps:
        """Return how far ``power`` is above the limit in force, of cap or load target."""
        time, row = with_times(self.power.time_s, self.cap.time_s)
        return Steps(time, excess_w(self.power.value[row], self.cap.at(time)))

    @property
    def wait_s(self) -> Floats:
        """Return the waits of the jobs that ran, in their order. Shape (number that ran,)."""
        ran = self.ran
        return (self.start_s - self.jobs.submit_s)[ran]

    def waits_so_far(self, *, slowdown: bool = False) -> Floats:
        """Return waits, or bounded slowdowns, of all jobs that were not rejected; bounds for those that never ran.

        A job that never ran counts up to the end of the run, and its slowdown as if it ran then. Shape (k,).
        """
        waits = waits_so_far(self.jobs, self.state, self.start_s, self.end_s)
        if not slowdown:
            return waits
        kept = self.state != State.REJECTED
        work_s = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)
        run_s = np.where(self.ran, self.end_s - self.start_s, work_s)[kept]
        return np.asarray(np.maximum(1.0, (waits + run_s) / np.maximum(run_s, TAU_S)), np.float64)

    @property
    def bounded_slowdown(self) -> Floats:
        """Return max(1, turnaround / max(run, 10 s)) of the jobs that ran. Shape (number that ran,)."""
        ran = self.ran
        run_s = np.maximum((self.end_s - self.start_s)[ran], 10.0)
        turnaround: Floats = (self.end_s - self.jobs.submit_s)[ran]
        return np.maximum(1.0, turnaround / run_s)
