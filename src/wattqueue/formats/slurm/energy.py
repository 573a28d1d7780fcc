"""Which of Slurm's overlapping energy counters is the job's own.

A job's row, its ``.extern`` step and the sum of its numbered steps each count the same joules; ``.batch`` and
``.interactive`` count the first node again. So one of them is taken, never a sum over all: the job's row, else the
numbered steps, else ``.extern``, else ``.batch`` of a one-node job.

Counters fail: after a restart of slurmd, after a wrap-around, or when the plugin has no reading. A counter whose
mean watts no node can draw is left out and counted (``Plausible``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

Bytes = NDArray[np.uint8]

NUMBERED, BATCH, EXTERN = 0, 1, 2
"""Kinds of steps: ``7.0`` and so on; ``7.batch`` or ``7.interactive``; ``7.extern``."""
SOURCES = ("", "job", "steps", "extern", "batch")
"""Values of ``jobs.extra["energy_from"]``; empty: no energy."""
LOW_W, HIGH_W = 10.0, 20_000.0
"""Mean watts that a node can draw, unless the site states its own: anything else is a counter that failed."""
KEPT = 10_000
"""Figures out of bounds whose watts are kept, to find the unit in which they would be plausible."""
OVERLAP = 1.05
"""Numbered steps that count more node-seconds than this times the job's ran side by side on the same nodes.

Their counters then each measured the whole nodes, and the sum counts the same joules more than once. Five percent
allow for rounded seconds of many short steps.
"""


class JobSteps(NamedTuple):
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
    """Bounds for the mean watts of a node, and the first few counters outside them.

    Fields: ``low_w`` and ``high_w`` in watts of one node; ``count`` of the counters that were left out so far, of
    ``total`` that there were; ``examples``, ids of up to three jobs that have one; ``outside_w``, watts of the first
    ``KEPT`` of those left out, block by block.
    """

    low_w: float = LOW_W
    high_w: float = HIGH_W
    count: int = 0
    examples: list[str] = field(default_factory=list)
    total: int = 0
    outside_w: list[Floats] = field(default_factory=list)

    def keeps(self, energy_j: Floats, node_s: Floats) -> NDArray[np.bool_]:
        """Return whether each figure is there and could be true.

        ``energy_j`` over ``node_s`` node-seconds gives mean watts of one node. Missing figures and zero times are
        False. Shapes alike.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            watts = energy_j / node_s
        return (watts >= self.low_w) & (watts <= self.high_w)

    def count_figures(self, energy_j: Floats, node_s: Floats) -> None:
        """Count figures, and keep the watts of some that are out of bounds. Shapes alike."""
        with np.errstate(divide="ignore", invalid="ignore"):
            watts = energy_j / node_s
        watts = watts[np.isfinite(watts)]
        self.total += len(watts)
        outside = watts[(watts < self.low_w) | (watts > self.high_w)]
        self.outside_w.append(outside[: max(0, KEPT - sum(map(len, self.outside_w)))])


def choose(energy_j: Floats, node_s: Floats, nodes: Floats, steps: JobSteps, plausible: Plausible) -> Chosen:
    """Return one energy for each job from its own row (``energy_j``, over ``node_s``) and its steps. Shapes (n,).

    Steps whose counter failed are left out, and their node-seconds with them: mean watts are those of what was
    measured. Some sites' job rows add .batch and .extern to the steps, which doubles the energy (``doubled``): such
    a row is left out in favour of its steps.
    """
    n = len(energy_j)
    plausible.count_figures(energy_j, node_s)
    plausible.count_figures(steps.energy_j, steps.node_s)
    step_good = plausible.keeps(steps.energy_j, steps.node_s)
    sums = {kind: _sum(n, steps, step_good & (steps.kind == kind)) for kind in (NUMBERED, BATCH, EXTERN)}
    (numbered, numbered_s), (batch, _), (extern, _) = sums[NUMBERED], sums[BATCH], sums[EXTERN]
    everything = numbered + batch + extern
    # Some releases add up all steps, .extern and .batch among them, for the row of the job.
    # A row 20 % above .extern is not the same count read at another moment; within 1 % of the sum of all steps, it is
    # that sum.
    doubled = (extern > 0) & (energy_j > 1.2 * extern) & (np.abs(energy_j - everything) <= 0.01 * everything)
    # From the best counter to the worst; each must be plausible by itself.
    choices = (
        (energy_j, node_s, plausible.keeps(energy_j, node_s) & ~doubled),
        (numbered, numbered_s, (numbered > 0) & ~(numbered_s > OVERLAP * node_s)),
        (extern, node_s, plausible.keeps(extern, node_s)),
        (batch, node_s, plausible.keeps(batch, node_s) & (nodes == 1)),
    )
    chosen_j, covered, source = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.uint8)
    # Backwards, so that a better choice overwrites a worse one.
    for i in range(len(choices), 0, -1):
        value, seconds, good = choices[i - 1]
        chosen_j[good], covered[good], source[good] = value[good], seconds[good], i
    # Counted whether or not another counter replaced it: the remark is about the health of the counters.
    glitch = np.isfinite(energy_j) & ~plausible.keeps(energy_j, node_s) & np.isfinite(node_s)
    failed = np.isfinite(steps.energy_j) & np.isfinite(steps.node_s) & ~step_good
    glitches = np.bincount(steps.job[failed], minlength=n).astype(np.int32) + glitch
    return Chosen(chosen_j, covered, source, glitches)


def _sum(n: int, steps: JobSteps, which: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return joules and node-seconds of the chosen steps for each job. Shapes (n,).

    ``which`` is a mask over the steps, ``n`` the number of jobs; a job without such steps gets 0 of both.
    """
    job = steps.job[which]
    energy, seconds = np.zeros(n), np.zeros(n)
    np.add.at(energy, job, steps.energy_j[which])
    np.add.at(seconds, job, steps.node_s[which])
    return energy, seconds
