"""One workload on one machine of paper 3 under its cap: every policy, and what is measured of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import CapSums, cap_sums, energies, job_figures, span
from wattqueue.model.physics import Cells, Physics
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.parts.actions import Action
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.controls.rapl_redistribution import PERIOD_S, RaplRedistribution
from wattqueue.parts.ledger.measured import Measured
from wattqueue.parts.run_contracts import Read
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.workload import lightesp
from wattqueue.workload.lightesp import APPS, LULESH, time_by_option, watts_by_option
from wattqueue_studies.frame.samples import Trial, TrialFigures

CORES = 520
"""Cores of either machine, which jobs are given (section 5.2)."""
QUANTILES = (50, 75, 90)
"""Of waits, in per cent."""
CAPS_W = {"bull": 4200.0, "montblanc": 2500.0}
"""Caps of section 5.2; 80 % of 5,200 and 3,120 W would be 4,160 and 2,496 W."""
BASE, ORACLE = "pas", "pas-true-watts"
"""The paper's baseline, and the same with the true watts of each job's application: an oracle."""
HIGHEST = "pas-highest"
"""PAS of jobs without a window, which start at the highest clock alone."""
POLICIES = (BASE, "pas-no-backfill", HIGHEST, ORACLE)
"""What is simulated on both machines."""
E_PAS = {"bull": "e-pas-intel", "montblanc": "e-pas-arm"}
"""The paper's policy on each machine."""
VARIANTS = {
    "bull": ("-no-backfill", "-no-reset", "-busy-share", "-ledger-only"),
    "montblanc": ("-no-backfill", "-ages", "-each-reading", "-busy-share"),
}
"""Other readings of it: without backfilling; starts do not reset limits; idle cores count idle watts; the measured
ledger without limits on sockets; samples that age between submissions; sensors that are read all the time."""
STALE_S = 10.0
"""Age at which samples are stale in the reading in which they age between submissions. Assumed."""


class MiniAppWatts:
    """An oracle: the true watts and times of each job's application at every option."""

    asked: Asked = "once"
    machine_figures: bool = False
    knows_future: bool = True

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return a row for each mini-application."""
        return Prediction(*app_figures(machine), jobs.app.codes)


class LuleshWatts:
    """What both algorithms predict (section 5.1): Lulesh's watts at each frequency, whatever the application."""

    asked: Asked = "once"
    machine_figures: bool = True

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row of watts that all jobs share, and the machine's time factors."""
        times = machine.option_time_factor[np.newaxis]
        return Prediction(watts_by_option(machine, LULESH)[np.newaxis], times, np.zeros(len(jobs), np.int32))


def paper_machine(name: str, idle_share: float) -> Machine:
    """Return bull or montblanc by cores, with idle watts as a share of the maximum and Lulesh's exponents."""
    machine = load_machine(name)
    part = machine.partitions[0]
    max_w = (part.max_w or 0.0) * part.units / CORES
    cores = replace(
        part,
        unit="core",
        idle_w=idle_share * max_w,
        max_w=max_w,
        dvfs_alpha=LULESH.alpha,
        dvfs_beta=LULESH.beta,
    )
    return replace(machine, partitions=(cores,))


def app_figures(machine: Machine) -> tuple[Floats, Floats]:
    """Return watts and time factors of the mini-applications at every option. Shapes (A, O)."""
    watts, times = (np.stack([of(machine, app) for app in APPS]) for of in (watts_by_option, time_by_option))
    return watts, times


def app_physics(machine: Machine) -> Physics:
    """Return what the mini-applications truly draw and take on a machine of one partition, at every clock."""
    watts, times = (figures.ravel() for figures in app_figures(machine))
    hz = machine.option_frequency_hz
    app = tuple(np.repeat([app.name for app in APPS], len(hz)).tolist())
    name, where = machine.partitions[0].name, "mini-applications"
    cells = Cells(where, app, (name,) * len(app), np.tile(hz, len(APPS)), watts, times, (where,) * len(app))
    return Physics((cells,), where=where)


def policies() -> dict[str, Policy]:
    """Return the policies of both machines by name.

    No node is switched off: the evaluation (section 5) does not mention it.
    """
    lulesh = LuleshWatts()
    return {
        BASE: load_policy("pas-any", estimator=lulesh, controls=[]),
        "pas-no-backfill": load_policy("pas-any", estimator=lulesh, backfill="none", controls=[]),
        HIGHEST: load_policy("pas", estimator=lulesh, controls=[]),
        ORACLE: load_policy("pas-any", estimator=MiniAppWatts(), controls=[]),
    }


def e_pas(machine: str) -> dict[str, Policy]:
    """Return E-PAS on a machine, and its other readings, by name. Made for each run: Algorithm 1 keeps state."""
    name, base = E_PAS[machine], "pas-any"
    read: Read = "period" if machine == "bull" else "submission"

    def row(*, reset: bool = True, limits: bool = machine == "bull", **more: Any) -> Policy:
        ledger = more.pop("ledger", None) or Measured(read=read)
        controls = [RaplRedistribution(reset=reset)] if limits else []
        return load_policy(base, estimator=LuleshWatts(), ledger=ledger, controls=controls, **more)

    found: dict[str, Callable[[], Policy]] = {
        "": row,
        "-no-backfill": lambda: row(backfill="none"),
        "-no-reset": lambda: row(reset=False),
        "-busy-share": lambda: row(ledger=Measured(read=read, share="busy")),
        "-ledger-only": lambda: row(limits=False),
        "-ages": lambda: row(ledger=Measured(read=read, ages=True, stale_s=STALE_S)),
        "-each-reading": lambda: row(ledger=Measured()),
    }
    return {name + key: found[key]() for key in ("", *VARIANTS[machine])}


@dataclass(frozen=True, slots=True)
class EspCase:
    """LightESP on one machine.

    Attributes:
        machine: Name of the machine.
        idle_share: Idle watts as a share of the maximum, which the paper does not state.
        divide: ESP's run times over those of the jobs.
        load: Work over what the machine can do between the first submission and the last, which is not in the text.
        first: Jobs that are submitted at second 0, likewise.
        whole_machine: Whether the two jobs on the whole machine (class Z) are among them.
    """

    machine: str
    idle_share: float
    divide: float = lightesp.DIVIDE
    load: float = lightesp.LOAD
    first: int = lightesp.FIRST
    whole_machine: bool = True

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        assumed = (self.load, self.first) == (lightesp.LOAD, lightesp.FIRST)
        submitted = "" if assumed else f", load {self.load:g}, {self.first} at 0"
        without = "" if self.whole_machine else ", without Z"
        return f"{self.machine}, idle {100 * self.idle_share:g} %{submitted}{without}"

    def policies(self, *, variants: bool) -> tuple[str, ...]:
        """Return the names of the policies on this machine, with the other readings of E-PAS or without."""
        name = E_PAS[self.machine]
        more = VARIANTS[self.machine] if variants else ()
        return (*POLICIES, name, *(name + variant for variant in more))

    def jobs(self, seed: int) -> Jobs:
        """Return the jobs of a seed."""
        rng = np.random.default_rng(seed)
        jobs = lightesp.generate(rng, nodes=CORES, divide=self.divide, load=self.load, first=self.first)
        return jobs if self.whole_machine else jobs.take(np.flatnonzero(jobs.extra["esp_class"] != "Z"))

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a policy on the jobs of a seed."""
        trial = self.traced(seed)
        return lambda name: trial(name).measured()

    def traced(self, seed: int) -> Callable[[str], EspRun]:
        """Return the same with the run itself."""
        machine, jobs = paper_machine(self.machine, self.idle_share), self.jobs(seed)
        found = policies()

        def run(name: str) -> EspRun:
            policy = found[name] if name in found else e_pas(self.machine)[name]
            return esp_run(jobs, machine, policy, CAPS_W[self.machine])

        return run


class LedgerTrace:
    """A control that does nothing: it notes what the ledger counts whenever that may have changed."""

    events: frozenset[str] = frozenset({"arrival", "completion", "start"})

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.time_s: list[float] = []
        self.counted_w: list[float] = []

    def act(self, view: View) -> Sequence[Action]:
        """Note the watts that the ledger counts, idle ones included."""
        self.time_s.append(view.now_s)
        self.counted_w.append(view.cap_w - view.available_w)
        return []


class LimitTrace:
    """A control that does nothing: it notes the sum of the limits on sockets whenever Algorithm 1 has run."""

    events: frozenset[str] = frozenset()

    def __init__(self, limits: RaplRedistribution) -> None:
        self.limits, self.period_s = limits, limits.period_s
        self.time_s: list[float] = []
        self.sum_w: list[float] = []

    def act(self, view: View) -> Sequence[Action]:
        """Note the sum of all limits."""
        self.time_s.append(view.now_s)
        self.sum_w.append(float(self.limits.limits_w.sum()))
        return []


@dataclass(frozen=True, slots=True, eq=False)
class EspRun:
    """A finished run and what its ledger counted.

    Attributes:
        run: The run.
        counted: Watts that the ledger counted over time, idle watts included.
        limits: Sum of the limits on sockets over time; None where there are none.
    """

    run: Run
    counted: Steps
    limits: Steps | None

    @property
    def span_s(self) -> tuple[float, float]:
        """Return the first submission and the last end."""
        return span(self.run.jobs, self.run.schedule)

    def measured(self) -> TrialFigures:
        """Return the figures with the work of the run."""
        return TrialFigures.of(self.run, self.figures())

    def figures(self) -> Mapping[str, float]:
        """Return the figures of the run; energies are of all cores, idle ones included."""
        run, (begin, end) = self.run, self.span_s
        kept, used = kept_cap(run), energies(run.power, run.machine, begin, end)
        counted_j = self.counted.integral(begin, end)
        return {
            **shared_figures(run, kept),
            "energy_j": used["machine_j"],
            "utilization_percent": 100.0 * used["busy_unit_s"] / (run.machine.units * (end - begin)),
            **wait_quantiles(run),
            "gap_percent": 100.0 * (counted_j - used["machine_j"]) / kept.allowed_j,
            "over_w": kept.figures().cap_overshoot_w or 0.0,
            "never_ran": float((~run.schedule.ran).sum()),
        }


def kept_cap(run: Run) -> CapSums:
    """Return the sums of power against the cap from the first submission to the last end."""
    begin, end = span(run.jobs, run.schedule)
    return cap_sums(run.power, run.machine, run.cap, begin, end)


def wait_quantiles(run: Run) -> dict[str, float]:
    """Return what distributions of waits are compared by (Figures 9 and 14)."""
    wait_s = job_figures(run.jobs, run.schedule).wait_s
    return {f"wait_p{q}_s": float(np.nanpercentile(wait_s, q)) for q in QUANTILES}


def shared_figures(run: Run, kept: CapSums) -> dict[str, float]:
    """Return the figures that every run under a cap is compared by: makespan, mean wait, power used, time above."""
    begin, end = span(run.jobs, run.schedule)
    return {
        "makespan_s": end - begin,
        "wait_s": float(np.nanmean(job_figures(run.jobs, run.schedule).wait_s)),
        "power_percent": 100.0 * kept.used_j / kept.allowed_j,
        "over_s": kept.over_s,
    }


def esp_run(jobs: Jobs, machine: Machine, policy: Policy, cap_w: float) -> EspRun:
    """Simulate, and note what the ledger counts."""
    counted = LedgerTrace(PERIOD_S)
    limits = [LimitTrace(each) for each in policy.controls if isinstance(each, RaplRedistribution)]
    watched = replace(policy, controls=(*policy.controls, *limits, counted))
    run = simulate(jobs, machine, watched, cap=Cap.constant(cap_w), actual=app_physics(machine))
    series = [Steps(np.array(each.time_s), np.array(each.sum_w)) for each in limits]
    return EspRun(run, Steps(np.array(counted.time_s), np.array(counted.counted_w)), series[0] if series else None)


def measured(jobs: Jobs, machine: Machine, policy: Policy, cap_w: float) -> TrialFigures:
    """Simulate and return the figures of a run."""
    return esp_run(jobs, machine, policy, cap_w).measured()
