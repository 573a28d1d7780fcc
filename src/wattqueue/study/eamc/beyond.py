"""Beyond paper 1: waits in part_eff, degrees for steps, a cap, three partitions, history, node factors.

Each comparison is between two policies over the same seeds, so Student's *paired* test applies. No correction for
testing many pairs is made: a single p below 0.05 among dozens is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.app_profiles import AppProfiles, HardwareProfile
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import paired
from wattqueue.sim.engine import simulate
from wattqueue.study.eamc.results import change_percent
from wattqueue.study.eamc.sweep import CONSERVATIVE, Case, SeedValues, by_key, sweep, workload
from wattqueue.study.eamc.systems import System
from wattqueue.workload.cirne import CirneModel

V, INC = "eamc-priority-inc-v", "eamc-priority-inc"
"""The paper's policies to compare with."""
OURS = ("eamc-wait-aware", "eamc-wait-aware-alone", "eamc-wait-aware-1.5", "eamc-regret")
"""Policies that the paper does not have."""
METRICS = ("turnaround_s_mean", "job_energy_j", "makespan_s")
"""Compared metrics, in the order of the table's columns."""
CAP_SHARE = 0.6
"""The cap, as a share of the sum of node maxima."""
NODE_VARIATION = 0.034
"""Coefficient of variation of equal nodes' watts: 64 nodes of Emmy, published with ClusterCockpit."""
HISTORY_SEED = 1_000_003
"""Seed of the workload that history is taken from; no simulated one has it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison of a policy with a base."""

    setting: str
    """System, share of STREAM and variation, as text."""
    policy: str
    """The policy."""
    base: str
    """The policy that it is compared with."""
    change: dict[str, float]
    """Change of means in per cent, by metric."""
    p: dict[str, float | None]
    """p of Student's paired test over the seeds, by metric; None with one seed."""

    @property
    def dominates(self) -> bool:
        """Return whether energy and response are both less, each with p below 0.05."""
        return all(
            self.change[m] < 0 and (p := self.p[m]) is not None and p < 0.05
            for m in ("turnaround_s_mean", "job_energy_j")
        )


def compare(setting: str, samples: Sequence[SeedValues], pairs: Sequence[tuple[str, str]]) -> list[Line]:
    """Compare policies with bases over the seeds that they share, in each (system, share) of the samples.

    Args:
        setting: Prefix of each line's setting, such as "cap 60%: ".
        samples: Metrics of all policies and bases, seed by seed.
        pairs: (policy, base) of each comparison.
    """
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
    """Return one comparison; ``own`` and ``other`` hold values by metric. Shapes (seeds,)."""
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
    """Simulate and compare everything beyond the paper.

    Args:
        both: The paper's two systems.
        seeds: Seeds of the workloads.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of those of the study.

    Five groups: policies that weigh waits or regret, a cap of 60 %, three partitions in one machine, profiles learned
    from finished jobs, and nodes with power factors of their own.
    """
    first = both["p1/p2"]
    cases = [*(Case(first, share) for share in (13, 33, 50)), Case(both["p1/p3"], 13)]

    def run(cases: list[Case], policies: Sequence[str]) -> list[SeedValues]:
        """Simulate cases with the settings of this call."""
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
    """Repeat the published comparisons with conservative backfilling: about 15 s per simulation."""
    cases = [*(Case(both["p1/p2"], share) for share in (13, 33, 50)), Case(both["p1/p3"], 13)]
    base, runtime, energy, inc = CONSERVATIVE
    samples = sweep(cases, CONSERVATIVE, seeds, threads=threads, model=model)
    return compare("", samples, [(runtime, base), (energy, runtime), (inc, runtime), (energy, inc), (base, runtime)])


def three_partitions(both: dict[str, System]) -> System:
    """Return a machine of p1, p2 and p3. STREAM as in Table 1: weak-scaled on p2 only."""
    p12, p13 = both["p1/p2"], both["p1/p3"]
    machine = Machine("eamc-p1p2p3", (*p12.machine.partitions, p13.machine.partitions[1]), source=p12.machine.source)
    return System("p1/p2/p3", machine, p12.estimator)


def history_profiles(system: System, model: CirneModel | None = None) -> AppProfiles:
    """Return profiles learned from finished jobs: mean watts and mean share of requested time used.

    By application and partition, from one simulated workload that no comparison uses. These jobs ran at the highest
    frequency only, so the profiles hold no other. Run times can be compared between partitions because the share of
    the requested time that a job uses does not depend on the partition.
    """
    jobs = workload(13, HISTORY_SEED, model)
    policy = load_policy("min-runtime", estimator=system.estimator, frequency="highest")
    actual = system.estimator.predict(jobs_for(system.estimator, jobs), system.machine)
    done = simulate(jobs, system.machine, policy, actual=actual).schedule
    took, app = system.machine.option_partition[done.option], jobs.app.codes
    duration = done.end_s - done.start_s
    watts, used = done.energy_j / duration / jobs.nodes, duration / jobs.walltime_s
    hardware = {}
    for p, part in enumerate(system.machine.partitions):
        cells = [(took == p) & (app == a) for a in range(len(jobs.app.names))]
        power, time = (np.array([[v[c].mean() if c.any() else np.nan] for c in cells]) for v in (watts, used))
        hardware[part.name] = HardwareProfile(np.array(part.frequencies_hz[:1]), power, time)
    return AppProfiles(jobs.app.names, hardware, "finished jobs")


def _history_lines(system: System, seeds: Sequence[int], threads: int, model: CirneModel | None) -> list[Line]:
    """Compare EAMC with profiles from history with EAMC that has the true ones."""
    known = sweep([Case(system, 13)], ("min-runtime", V), seeds, threads=threads, model=model)
    history = Ear(profiles=history_profiles(system, model))
    learnt = sweep([Case(system, 13, predict=history)], (V,), seeds, threads=threads, model=model)
    renamed = [replace(s, policy="history") for s in learnt]
    return compare("history for appDB: ", [*known, *renamed], [("history", "min-runtime"), ("history", V)])


def binned(system: System, variation: float = NODE_VARIATION) -> System:
    """Split each partition into its more and its less efficient half, by nodes' own power factors.

    Factors are normal with the given coefficient of variation, so the mean of a half is sqrt(2/pi) = 0.8 of it away
    from 1.
    """
    away = variation * np.sqrt(2 / np.pi)
    parts, hardware = [], {}
    for part in system.machine.partitions:
        whole = system.estimator.profiles.on(part.name)
        for name, factor in ((f"{part.name}-low", 1 - away), (f"{part.name}-high", 1 + away)):
            parts.append(replace(part, name=name, nodes=part.nodes // 2))
            hardware[name] = replace(whole, power_w=whole.power_w * factor)
    profiles = AppProfiles(
        system.estimator.profiles.apps, hardware, f"{system.estimator.profiles.source}, node factors"
    )
    machine = Machine(f"{system.machine.name}-binned", tuple(parts), source=system.machine.source)
    return System(system.name, machine, Ear(profiles=profiles))


def _node_lines(system: System, seeds: Sequence[int], threads: int, model: CirneModel | None) -> list[Line]:
    """Compare EAMC that sees the halves with EAMC on whole partitions, whose nodes have the mean factor, 1."""
    whole = sweep([Case(system, 13)], (V,), seeds, threads=threads, model=model)
    halves = sweep([Case(binned(system), 13)], (V, "eamc-regret"), seeds, threads=threads, model=model)
    renamed = [replace(s, policy=f"{s.policy}, halves") for s in halves]
    pairs = [(f"{V}, halves", V), ("eamc-regret, halves", V)]
    return compare("node factors: ", [*whole, *renamed], pairs)


def beyond_lines(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the comparisons as lines of text."""
    from wattqueue.report.text_table import table

    yield ""
    yield "Per cent of change (p of Student's paired test over the seeds)"
    rows = [
        [line.setting, line.policy, line.base, *(_cell(line, m) for m in METRICS), "yes" if line.dominates else "no"]
        for line in lines
    ]
    yield from table(("setting", "policy", "over", "response", "energy", "makespan", "both better"), rows)


def _cell(line: Line, metric: str) -> str:
    """Return a change with its p, in scientific notation below 0.001."""
    p = line.p[metric]
    return f"{line.change[metric]:+.1f}" + ("" if p is None else f" ({p:.0e})" if p < 1e-3 else f" ({p:.3f})")


def verdicts(lines: Sequence[Line]) -> Iterator[str]:
    """Yield for each of our policies in how many workloads it is better in both energy and response, and which."""
    for policy in OURS:
        found = [line for line in lines if (line.policy, line.base) == (policy, V)]
        better = [line.setting for line in found if line.dominates]
        where = f": {'; '.join(better)}" if better else ""
        yield f"{policy} is better than {V} in energy and response in {len(better)} of {len(found)} workloads{where}"
