"""Everything beyond paper 2 on all sites, draw by draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.chips.extensions.learning import KNOWLEDGE, drifts, errors
from wattqueue_studies.chips.extensions.policies import MOVING, POLICIES, STILL, ExtensionCase
from wattqueue_studies.chips.extensions.sites import Generated, Sites
from wattqueue_studies.frame.samples import Progress, Samples, Trial, sweep

GENERATED = "generated sockets"


@dataclass(frozen=True, slots=True, eq=False)
class ExtensionFigures:
    """Figures of all runs.

    Attributes:
        policies: Placements by site and budget.
        learning: Errors of watts by site and kind of knowledge.
        drifts: Units that changed, on generated sockets, by figure. Shapes (draws,).
        nodes: Real nodes by job and figure; empty without them.
    """

    policies: Samples
    learning: Samples
    drifts: Mapping[str, Floats]
    nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def compare_extensions(
    measured: Mapping[str, Sites],
    nodes: Mapping[str, Mapping[str, float]],
    draws: int,
    threads: int,
    progress: Progress | None = None,
) -> ExtensionFigures:
    """Simulate and score everything on the measured devices and on generated sockets.

    Args:
        measured: Measured devices by name.
        nodes: Figures of real nodes (``learning.node_figures``).
        draws: Draws; the first seeds of generated sockets are ``sites.HOLD_OUT`` and on.
        threads: Simulations at a time.
        progress: Called with (finished, all) simulations.
    """
    sites: dict[str, Sites] = {**measured, GENERATED: Generated()}
    seeds = range(draws)
    settings = {f"{name}, {kind}": ExtensionCase(of, kind) for name, of in sites.items() for kind in (STILL, MOVING)}
    policies = sweep(ExtensionCase.draw, settings, POLICIES, seeds, threads=threads, progress=progress)
    learning = sweep(_score, sites, KNOWLEDGE, seeds, threads=threads, scores=True)
    changed = [drifts(sites[GENERATED].draw(seed), seed) for seed in seeds]
    return ExtensionFigures(
        policies, learning, {key: np.array([one[key] for one in changed]) for key in changed[0]}, nodes
    )


def _score(sites: Sites, seed: int) -> Trial:
    """Return the errors of each kind of knowledge on the site of a seed."""
    return errors(sites.draw(seed))
