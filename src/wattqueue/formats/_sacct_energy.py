"""Which of Slurm's overlapping energy counters is the job's own.

A job's row, its ``.extern`` step and the sum of its numbered steps each claim the same joules;
``.batch`` and ``.interactive`` count the first node again. So one of them is taken, never a sum over all:
the job's row, else the numbered steps, else ``.extern``, else ``.batch`` of a one-node job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

Bytes = NDArray[np.uint8]

NUMBERED, BATCH, EXTERN = 0, 1, 2
SOURCES = ("", "job", "steps", "extern", "batch")
"""What ``jobs.extra["energy_from"]`` says; empty: no energy."""
LOW_W, HIGH_W = 10.0, 20_000.0
"""Mean watts that a node can draw, unless the site says better: anything else is a counter that failed."""
OVERLAP = 1.05
"""Numbered steps that claim more node-seconds than this times the job's ran side by side on the same nodes."""


class Steps(NamedTuple):
    """Steps of some jobs. Shapes (k,): row of the job, kind, joules (NaN: none), node-seconds."""

    job: NDArray[np.int64]
    kind: Bytes
    energy_j: Floats
    node_s: Floats


class Chosen(NamedTuple):
    """A job's energy. Shapes (n,): joules, the node-seconds they cover, an index of SOURCES, counters left out."""

    energy_j: Floats
    covered_node_s: Floats
    source: Bytes
    glitches: NDArray[np.int32]


@dataclass
class Plausible:
    """Bounds for the mean watts of a node, and the first few counters that broke them."""

    low_w: float = LOW_W
    high_w: float = HIGH_W
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def keeps(self, energy_j: Floats, node_s: Floats) -> NDArray[np.bool_]:
        """Whether each figure is there and could be true."""
        with np.errstate(divide="ignore", invalid="ignore"):
            watts = energy_j / node_s
        return (watts >= self.low_w) & (watts <= self.high_w)


def choose(energy_j: Floats, node_s: Floats, nodes: Floats, steps: Steps, plausible: Plausible) -> Chosen:
    """One energy for each job from its own row (``energy_j``, over ``node_s``) and its steps. Shapes (n,).

    Steps whose counter failed are left out, and their node-seconds with them: mean watts come from
    what was measured.
    """
    n = len(energy_j)
    step_good = plausible.keeps(steps.energy_j, steps.node_s)
    sums = {kind: _sum(n, steps, step_good & (steps.kind == kind)) for kind in (NUMBERED, BATCH, EXTERN)}
    (numbered, numbered_s), (batch, _), (extern, _) = sums[NUMBERED], sums[BATCH], sums[EXTERN]
    everything = numbered + batch + extern
    doubled = (extern > 0) & (energy_j > 1.2 * extern) & (np.abs(energy_j - everything) <= 0.01 * everything)
    choices = (
        (energy_j, node_s, plausible.keeps(energy_j, node_s) & ~doubled),
        (numbered, numbered_s, (numbered > 0) & ~(numbered_s > OVERLAP * node_s)),
        (extern, node_s, plausible.keeps(extern, node_s)),
        (batch, node_s, plausible.keeps(batch, node_s) & (nodes == 1)),
    )
    chosen_j, covered, source = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.uint8)
    for i in range(len(choices), 0, -1):
        value, seconds, good = choices[i - 1]
        chosen_j[good], covered[good], source[good] = value[good], seconds[good], i
    glitch = np.isfinite(energy_j) & ~plausible.keeps(energy_j, node_s) & np.isfinite(node_s)
    failed = np.isfinite(steps.energy_j) & np.isfinite(steps.node_s) & ~step_good
    glitches = np.bincount(steps.job[failed], minlength=n).astype(np.int32) + glitch
    return Chosen(chosen_j, covered, source, glitches)


def _sum(n: int, steps: Steps, which: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    job = steps.job[which]
    energy, seconds = np.zeros(n), np.zeros(n)
    np.add.at(energy, job, steps.energy_j[which])
    np.add.at(seconds, job, steps.node_s[which])
    return energy, seconds
