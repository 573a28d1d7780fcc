"""Beyond paper 1: waits in part_eff, degrees for steps, a cap, three partitions, history, node factors.

Each comparison is between two policies over the same seeds, so Student's *paired* test applies, corrected for the
number of tests (``frame.compare``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wattqueue.model.app_profiles import AppProfiles, HardwareProfile
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.order.earliest_end import EarliestEnd
from wattqueue.parts.order.priority_inc_v import PriorityIncV
from wattqueue.parts.order.priority_regret import PriorityRegret
from wattqueue.parts.order.wait_aware import WaitAware
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue_studies.eamc.cirne import CirneModel
from wattqueue_studies.eamc.tables import RESPONSE_AND_ENERGY
from wattqueue_studies.eamc.workloads import CONSERVATIVE, Case, System, paper_cases, workload
from wattqueue_studies.frame.compare import ComparisonTable, compare
from wattqueue_studies.frame.samples import Samples, sweep

V, INC, RT = "eamc-priority-inc-v", "eamc-priority-inc", "min-runtime"
"""The paper's policies to compare with."""
WAIT, REGRET = "eamc-wait-aware", "eamc-regret"
OURS = (WAIT, f"{WAIT}-alone", f"{WAIT}-1.5", REGRET)
"""Policies that the paper does not have."""
TIME_ONLY = 1e9
"""A t_weight at which energy decides nothing."""
WAIT_TIME, REGRET_TIME = "wait-aware by time only", "regret by time only"
V_BY_END, REGRET_BY_END = f"{V} by end", "regret by end"
BASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    WAIT_TIME: (WAIT, {"order": WaitAware(t_weight=TIME_ONLY)}),
    REGRET_TIME: (REGRET, {"order": PriorityRegret(t_weight=TIME_ONLY)}),
    V_BY_END: (V, {"order": EarliestEnd(inner=PriorityIncV())}),
    REGRET_BY_END: (REGRET, {"order": EarliestEnd(inner=PriorityRegret())}),
}
"""Bases with the same order of the queue. *By time only*: the same rule without energy, so that what is left of a
change is due to energy in the order. *By end*: submission plus requested time orders jobs of one class, in both."""
PAIRS = (
    *((name, V) for name in OURS if name != f"{WAIT}-1.5"),
    (f"{WAIT}-1.5", f"{V}-1.5"),
    (WAIT, WAIT_TIME),
    (REGRET, REGRET_TIME),
    (V_BY_END, V),
    (REGRET_BY_END, V),
    (REGRET_BY_END, V_BY_END),
)
"""(policy, base) on the paper's workloads."""
JUDGED = tuple(RESPONSE_AND_ENERGY)
METRICS = {
    **RESPONSE_AND_ENERGY,
    "makespan_s": "makespan",
    "wait_s_p95": "wait p95",
    "wait_s_p99": "wait p99",
    "wait_s_max": "greatest wait",
}
"""Compared metrics with their headings."""
CAP_SHARE = 0.6
"""The cap, as a share of the sum of node maxima."""
NODE_VARIATION = 0.034
"""Coefficient of variation of equal nodes' watts: 64 nodes of Emmy, published with ClusterCockpit."""
HISTORY_SEED = 1_000_003
"""Seed of the workload that history is taken from; no simulated one has it."""


def extensions(
    both: dict[str, System],
    seeds: Sequence[int],
    conservative_seeds: Sequence[int] = (),
    *,
    threads: int = 2,
    model: CirneModel | None = None,
) -> ComparisonTable:
    """Simulate and compare everything beyond the paper.

    Args:
        both: The paper's two systems.
        seeds: Seeds of the workloads.
        conservative_seeds: Seeds of the workloads with conservative backfilling; none for no such comparison.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of those of the study.

    Six groups: policies that weigh waits or regret, beside bases with the same order; the same with conservative
    backfilling; a cap of 60 %, three partitions in one machine, profiles learned from finished jobs, and nodes with
    power factors of their own.
    """
    first = both["p1/p2"]

    def run(cases: Iterable[Case], policies: Sequence[str], prefix: str = "", of: Sequence[int] = seeds) -> Samples:
        """Simulate cases with the settings of this call."""
        settings = {f"{prefix}{c.system.name}, {c.share} %": replace(c, model=model, variants=BASES) for c in cases}
        return sweep(Case.draw, settings, policies, of, threads=threads)

    found = compare(run(paper_cases(both).values(), (V, f"{V}-1.5", *OURS, *BASES)), PAIRS, METRICS)
    if conservative_seeds:
        held = run([Case(first, 13, backfill=CONSERVATIVE)], (V, WAIT, REGRET), "conservative: ", conservative_seeds)
        found += compare(held, [(WAIT, V), (REGRET, V)], METRICS)
    limit = Cap.constant(CAP_SHARE * (first.machine.scope_max_w() or np.inf))
    capped = run([Case(first, 13, cap=limit)], (RT, INC, "eamc-capped"), f"cap {CAP_SHARE:.0%}: ")
    found += compare(capped, [(INC, RT), ("eamc-capped", RT)], METRICS)
    three = run([Case(three_partitions(both), 13)], (RT, V, WAIT, REGRET))
    found += compare(three, [(V, RT), (WAIT, V), (REGRET, V)], METRICS)
    prefix = "history for appDB: "
    learnt = run([Case(first, 13, predict=Ear(profiles=history_profiles(first, model)))], (V,), prefix)
    history = run([Case(first, 13)], (RT, V), prefix).joined(learnt.renamed({V: "history"}))
    found += compare(history, [("history", RT), ("history", V)], METRICS)
    prefix = "node factors: "
    names = {name: f"{name}, halves" for name in (V, REGRET)}
    halves = run([Case(binned(first), 13)], tuple(names), prefix).renamed(names)
    nodes = run([Case(first, 13)], (V,), prefix).joined(halves)
    found += compare(nodes, [(name, V) for name in names.values()], METRICS)
    return ComparisonTable.of(found, METRICS, JUDGED, "Beyond the paper, per cent of change")


def three_partitions(both: dict[str, System]) -> System:
    """Return a machine of p1, p2 and p3. STREAM as in Table 1: weak-scaled on p2 only."""
    p12, p13 = both["p1/p2"], both["p1/p3"]
    machine = Machine("eamc-p1p2p3", (*p12.machine.partitions, p13.machine.partitions[1]), source=p12.machine.source)
    return System.of("p1/p2/p3", machine, p12.estimator.profiles)


def history_profiles(system: System, model: CirneModel | None = None) -> AppProfiles:
    """Return profiles learned from finished jobs: mean watts and mean share of requested time used.

    By application and partition, from one simulated workload that no comparison uses. These jobs ran at the highest
    frequency only, so the profiles hold no other. Run times can be compared between partitions because the share of
    the requested time that a job uses does not depend on the partition.
    """
    jobs = workload(13, HISTORY_SEED, model)
    policy = load_policy("min-runtime", estimator=system.estimator, frequency="highest")
    done = simulate(jobs, system.machine, policy, actual=system.physics).schedule
    took, app = system.machine.option_partition[done.option], jobs.app.codes
    duration = done.end_s - done.start_s
    watts, used = done.energy_j / duration / jobs.nodes, duration / jobs.walltime_s
    hardware = {}
    for p, part in enumerate(system.machine.partitions):
        cells = [(took == p) & (app == a) for a in range(len(jobs.app.names))]
        power, time = (np.array([[v[c].mean() if c.any() else np.nan] for c in cells]) for v in (watts, used))
        hardware[part.name] = HardwareProfile(np.array(part.frequencies_hz[:1]), power, time)
    return AppProfiles(jobs.app.names, hardware, "finished jobs")


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
            top_w = None if part.max_w is None else part.max_w * factor
            parts.append(replace(part, name=name, nodes=part.nodes // 2, max_w=top_w))
            hardware[name] = replace(whole, power_w=whole.power_w * factor)
    profiles = AppProfiles(
        system.estimator.profiles.apps, hardware, f"{system.estimator.profiles.source}, node factors"
    )
    machine = Machine(f"{system.machine.name}-binned", tuple(parts), source=system.machine.source)
    return System.of(system.name, machine, profiles)
