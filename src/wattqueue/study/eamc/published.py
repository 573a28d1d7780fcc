"""Figures that paper 1 reports, each with its workload, policy, base and section.

Per cent of change of the metric against the base: a saving is negative. Where the body of the paper says
"up to" without a workload, ``shares`` names those it can mean.
"""

from __future__ import annotations

from dataclasses import dataclass

RESPONSE = "turnaround_s_mean"
MAKESPAN = "makespan_s"
ENERGY = "job_energy_j"
BEST = "best_partition_percent"

RT, EN, BASE = "min-runtime", "min-energy", "base-slurm"
INC, V, V15 = "eamc-priority-inc", "eamc-priority-inc-v", "eamc-priority-inc-v-1.5"


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """One published figure."""

    system: str
    """Machine: p1/p2 or p1/p3."""
    shares: tuple[int, ...]
    """Shares of STREAM that the text can mean, in per cent."""
    policy: str
    """The policy."""
    metric: str
    """The metric, a name of ``sweep.measures``."""
    base: str
    """Policy of comparison; empty for BEST."""
    percent: float
    """Change against the base in per cent, below 0 a saving; for BEST the value itself."""
    where: str
    """Section, and how the text restricts the figure."""


P12, P13 = "p1/p2", "p1/p3"

CLAIMS = (
    # Figure 3, section 5.1: over Base Slurm, 13 %, t_weight 1.
    PublishedChange(P12, (13,), RT, MAKESPAN, BASE, -39, "5.1"),
    PublishedChange(P12, (13,), RT, RESPONSE, BASE, -64, "5.1"),
    PublishedChange(P12, (13,), EN, ENERGY, BASE, -5, "5.1"),
    PublishedChange(P12, (13,), RT, ENERGY, EN, 12, "5.1"),
    PublishedChange(P12, (13,), INC, ENERGY, RT, -9, "5.1"),
    # Figure 4, section 5.2: over Min_runtime.
    PublishedChange(P12, (13,), INC, RESPONSE, RT, -2, "5.2"),
    PublishedChange(P12, (33,), INC, RESPONSE, RT, -10, "5.2"),
    PublishedChange(P12, (50,), INC, RESPONSE, RT, -25, "5.2; the abstract too"),
    PublishedChange(P12, (13, 33, 50), V15, f"{RESPONSE}_p2", RT, -53, "5.2, up to"),
    PublishedChange(P12, (13, 33, 50), V15, f"{RESPONSE}_p1", RT, 34, "5.2, up to"),
    PublishedChange(P12, (13, 33, 50), INC, MAKESPAN, RT, -5, "5.2, from; the abstract: -6"),
    PublishedChange(P12, (13, 33, 50), INC, MAKESPAN, RT, 6, "5.2, to"),
    PublishedChange(P12, (33,), RT, ENERGY, EN, 17, "5.2"),
    PublishedChange(P12, (50,), RT, ENERGY, EN, 21, "5.2"),
    PublishedChange(P12, (50,), INC, ENERGY, RT, -20, "5.2, up to; the abstract too"),
    PublishedChange(P12, (13, 33, 50), INC, ENERGY, EN, -4, "5.2, up to; the abstract: -6"),
    PublishedChange(P12, (33, 50), EN, RESPONSE, RT, 51, "5.2, up to"),
    PublishedChange(P12, (33, 50), EN, MAKESPAN, RT, 23, "5.2, up to"),
    PublishedChange(P12, (33, 50), EN, RESPONSE, INC, 65, "5.2, up to"),
    PublishedChange(P12, (33, 50), EN, MAKESPAN, INC, 25, "5.2, up to"),
    PublishedChange(P12, (13,), EN, RESPONSE, INC, 93, "5.2; the abstract: EAMC -49 against min-energy, which is +96"),
    PublishedChange(P12, (13, 33, 50), INC, MAKESPAN, EN, -26, "abstract, up to"),
    PublishedChange(P12, (50,), BASE, RESPONSE, RT, -19, "5.2"),
    PublishedChange(P12, (50,), BASE, ENERGY, RT, -10, "5.2"),
    PublishedChange(P12, (50,), BASE, MAKESPAN, RT, 7, "5.2"),
    # Figure 5: a share, not a change.
    PublishedChange(P12, (13, 33, 50), INC, BEST, "", 82, "5.2, up to"),
    PublishedChange(P12, (13, 33, 50), RT, BEST, "", 55, "5.2"),
    # Figure 6, section 5.3: p1 and p3, 13 %.
    PublishedChange(P13, (13,), V, ENERGY, RT, -7, "5.3"),
    PublishedChange(P13, (13,), V, RESPONSE, RT, 0, "5.3, comparable"),
    PublishedChange(P13, (13,), V15, RESPONSE, RT, -15, "5.3"),
    PublishedChange(P13, (13,), V15, ENERGY, RT, -4, "5.3"),
    PublishedChange(P13, (13,), EN, ENERGY, V, -2, "5.3"),
    PublishedChange(P13, (13,), EN, RESPONSE, V, 61, "5.3"),
)


def published(system: str, share: int, policy: str, metric: str, base: str) -> float | None:
    """Return the published figure of exactly this workload; None if there is none, or the text names no single one."""
    found = [
        c.percent
        for c in CLAIMS
        if (c.system, c.policy, c.metric, c.base) == (system, policy, metric, base) and c.shares == (share,)
    ]
    return found[0] if found else None
