"""Beyond paper 1: waits in part_eff, degrees for steps, a cap, three partitions, history, node factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.app_profiles import HardwareProfile, Profiles
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.ear import Ear
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import paired
from wattqueue.sim.engine import simulate
from wattqueue.study.eamc.results import change_percent
from wattqueue.study.eamc.sweep import CONSERVATIVE, Case, Sample, by_key, sweep, workload
from wattqueue.study.eamc.systems import System
from wattqueue.workload.cirne import CirneModel

V, INC = "eamc-priority-inc-v", "eamc-priority-inc"
OURS = ("eamc-wait-aware", "eamc-wait-aware-alone", "eamc-wait-aware-1.5", "eamc-regret")
METRICS = ("turnaround_s_mean", "job_energy_j", "makespan_s")
CAP_SHARE = 0.6
NODE_VARIATION = 0.034
"""Coefficient of variation of equal nodes' watts: 64 nodes of Emmy, published with ClusterCockpit."""
HISTORY_SEED = 1_000_003
"""Seed of the workload that history is taken from; no simulated one has it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: change of means in per cent by metric, and p of Student's paired test."""

    setting: str
    policy: str
    base: str
    change: dict[str, float]
    p: dict[str, float | None]

    @property
    def dominates(self) -> bool:
        """Less energy and less response, both certain to 95 %."""
        return all(
            self.change[m] < 0 and (p := self.p[m]) is not None and p < 0.05
            for m in ("turnaround_s_mean", "job_energy_j")
        )


def compare(setting: str, samples: Sequence[Sample], pairs: Sequence[tuple[str, str]]) -> list[Line]:
    """Policies against bases, over the seeds that they share, in each (system, share) of the samples."""
    values = by_key(samples)
    lines = []
    for system, share in dict.fromkeys((s.system, s.share) for s in samples):
        for policy, base in pairs:
            own, other = ({m: values[system, share, name, m] for m in METRICS} for name in (policy, base))
            lines.append(_line(f"{setting}{system}, {share} %", (policy, base), own, other))
    return lines


def _line(
    setting: str, names: tuple[str, str], own: dict[str, NDArray[np.float64]], other: dict[str, NDArray[np.float64]]
) -> Line:
    tests = {m: paired(other[m], own[m]) for m in METRICS}
    return Line(
        setting,
        *names,
        {m: change_percent(own[m].mean(), other[m].mean()) for m in METRICS},
        {m: test.p_t if (test := tests[m]) else None for m in METRICS},
    )


def beyond(
    both: dict[str, System], seeds: Sequence[int], *, threads: int = 2, model: CirneModel | None = None
) -> list[Line]:
    """Every row beyond the paper, ``seeds`` workloads each."""
    first = both["p1/p2"]
    cases = [*(Case(first, share) for share in (13, 33, 50)), Case(both["p1/p3"], 13)]

    def run(cases: list[Case], policies: Sequence[str]) -> list[Sample]:
        return sweep(cases, policies, seeds, threads=threads, model=model)

    waits = run(cases, (V, f"{V}-1.5", *OURS))
    pairs = [*((name, V) for name in OURS), ("eamc-wait-aware-1.5", f"{V}-1.5")]
    lines = compare("", waits, pairs)
    limit = Cap.constant(CAP_SHARE * (first.machine.scope_max_w() or np.inf))
    capped = run([Case(first, 13, cap=limit)], ("min-runtime", INC, "eamc-capped"))
    lines += compare(f"cap {CAP_SHARE:.0%}: ", capped, [(INC, "min-runtime"), ("eamc-capped", "min-runtime")])
    three = run([Case(three_partitions(both), 13)], ("min-runtime", V, "eamc-wait-aware", "eamc-regret"))
    lines += compare("", three, [(V, "min-runtime"), ("eamc-wait-aware", V), ("eamc-regret", V)])
    lines += _history_lines(first, seeds, threads, model)
    return lines + _node_lines(first, seeds, threads, model)


def conservative(
    both: dict[str, System], seeds: Sequence[int], *, threads: int = 2, model: CirneModel | None = None
) -> list[Line]:
    """The published comparisons with every reservation kept: about 15 s a simulation."""
    cases = [*(Case(both["p1/p2"], share) for share in (13, 33, 50)), Case(both["p1/p3"], 13)]
    base, runtime, energy, inc = CONSERVATIVE
    samples = sweep(cases, CONSERVATIVE, seeds, threads=threads, model=model)
    return compare("", samples, [(runtime, base), (energy, runtime), (inc, runtime), (energy, inc), (base, runtime)])


def three_partitions(both: dict[str, System]) -> System:
    """p1, p2 and p3 in one machine. STREAM as Table 1 has it: weak-scaled on p2 alone."""
    p12, p13 = both["p1/p2"], both["p1/p3"]
    machine = Machine("eamc-p1p2p3", (*p12.machine.partitions, p13.machine.partitions[1]), source=p12.machine.source)
    return System("p1/p2/p3", machine, p12.estimator)


def history_profiles(system: System, model: CirneModel | None = None) -> Profiles:
    """Profiles from finished jobs alone: mean watts and mean share of requested time, by application and partition.

    Nobody ran these applications at other frequencies, so history offers the highest one only. Run times
    compare because the share of the requested time that a job uses does not depend on where it runs.
    """
    jobs = workload(13, HISTORY_SEED, model)
    policy = load_policy("min-runtime", estimator=system.estimator, frequency="highest")
    actual = system.estimator.predict(jobs, system.machine)
    done = simulate(jobs, system.machine, policy, actual=actual).schedule
    took, app = system.machine.option_partition[done.option], jobs.app.codes
    duration = done.end_s - done.start_s
    watts, used = done.energy_j / duration / jobs.nodes, duration / jobs.walltime_s
    hardware = {}
    for p, part in enumerate(system.machine.partitions):
        cells = [(took == p) & (app == a) for a in range(len(jobs.app.names))]
        power, time = (np.array([[v[c].mean() if c.any() else np.nan] for c in cells]) for v in (watts, used))
        hardware[part.name] = HardwareProfile(np.array(part.frequencies_hz[:1]), power, time)
    return Profiles(jobs.app.names, hardware, "finished jobs")


def _history_lines(system: System, seeds: Sequence[int], threads: int, model: CirneModel | None) -> list[Line]:
    known = sweep([Case(system, 13)], ("min-runtime", V), seeds, threads=threads, model=model)
    history = Ear(profiles=history_profiles(system, model))
    learnt = sweep([Case(system, 13, predict=history)], (V,), seeds, threads=threads, model=model)
    renamed = [replace(s, policy="history") for s in learnt]
    return compare("history for appDB: ", [*known, *renamed], [("history", "min-runtime"), ("history", V)])


def binned(system: System, variation: float = NODE_VARIATION) -> System:
    """Each partition split into its more and its less efficient half, by nodes' own power factors.

    Factors are normal with the given coefficient of variation; a half's mean is 0.8 of it away from 1.
    """
    away = variation * np.sqrt(2 / np.pi)
    parts, hardware = [], {}
    for part in system.machine.partitions:
        whole = system.estimator.profiles.on(part.name)
        for name, factor in ((f"{part.name}-low", 1 - away), (f"{part.name}-high", 1 + away)):
            parts.append(replace(part, name=name, nodes=part.nodes // 2))
            hardware[name] = replace(whole, power_w=whole.power_w * factor)
    profiles = Profiles(system.estimator.profiles.apps, hardware, f"{system.estimator.profiles.source}, node factors")
    machine = Machine(f"{system.machine.name}-binned", tuple(parts), source=system.machine.source)
    return System(system.name, machine, Ear(profiles=profiles))


def _node_lines(system: System, seeds: Sequence[int], threads: int, model: CirneModel | None) -> list[Line]:
    """Halves known to the policy against the whole partitions, whose nodes draw the mean factor, 1."""
    whole = sweep([Case(system, 13)], (V,), seeds, threads=threads, model=model)
    halves = sweep([Case(binned(system), 13)], (V, "eamc-regret"), seeds, threads=threads, model=model)
    renamed = [replace(s, policy=f"{s.policy}, halves") for s in halves]
    pairs = [(f"{V}, halves", V), ("eamc-regret, halves", V)]
    return compare("node factors: ", [*whole, *renamed], pairs)


def beyond_lines(lines: Sequence[Line]) -> Iterator[str]:
    """The comparisons as text, and the verdict on wait-aware EAMC."""
    from wattqueue.report.text_table import table

    yield ""
    yield "Per cent of change (p of Student's paired test over the seeds)"
    rows = [
        [line.setting, line.policy, line.base, *(_cell(line, m) for m in METRICS), "yes" if line.dominates else "no"]
        for line in lines
    ]
    yield from table(("setting", "policy", "over", "response", "energy", "makespan", "both better"), rows)


def _cell(line: Line, metric: str) -> str:
    p = line.p[metric]
    return f"{line.change[metric]:+.1f}" + ("" if p is None else f" ({p:.0e})" if p < 1e-3 else f" ({p:.3f})")


def verdicts(lines: Sequence[Line]) -> Iterator[str]:
    """Whether each of our policies is better than priority-inc-v in both energy and response, and where."""
    for policy in OURS:
        found = [line for line in lines if (line.policy, line.base) == (policy, V)]
        better = [line.setting for line in found if line.dominates]
        where = f": {'; '.join(better)}" if better else ""
        yield f"{policy} is better than {V} in energy and response in {len(better)} of {len(found)} workloads{where}"
