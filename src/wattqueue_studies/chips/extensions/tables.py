"""Tables of what lies beyond paper 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.chips.extensions.learning import CHANGE, KNOWLEDGE, drifts, errors
from wattqueue_studies.chips.extensions.policies import (
    BY_NUMBER,
    LONG,
    MOVING,
    OWN,
    POLICIES,
    STILL,
    TELEMETRY,
    ExtensionCase,
)
from wattqueue_studies.chips.extensions.sites import DAYS, Generated, Sites
from wattqueue_studies.frame.compare import ComparisonTable, compare
from wattqueue_studies.frame.samples import Progress, Samples, Trial, change, sweep

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


PAIRS = ((TELEMETRY, BY_NUMBER), (TELEMETRY, "one benchmark"), (TELEMETRY, OWN), (LONG, OWN))
"""Policies whose difference in energy is tested."""
METRICS = {"energy_j": "energy", "turnaround_s": "turnaround"}


def tables(found: ExtensionFigures) -> Iterator[Table | ComparisonTable]:
    """Yield all tables over the draws."""
    yield learning_table(found)
    yield drift_table(found)
    if found.nodes:
        yield nodes_table(found)
    for metric, title in METRICS.items():
        yield placement_table(found, metric, f"Extensions: mean {title} over {BY_NUMBER} (%)")
    yield over_table(found)
    rows = compare(found.policies, PAIRS, METRICS)
    yield ComparisonTable.of(rows, METRICS, ("energy_j",), "Extensions: energy of placements compared (%)")
    yield moving_table(found)
    yield joint_table(found)


def learning_table(found: ExtensionFigures) -> Table:
    """Return the errors of watts by what is known of each device."""
    sites = found.learning.settings
    rows = [[name, *(_cell(found.learning.of(s, name, "error_percent")) for s in sites)] for name in KNOWLEDGE]
    covered = found.learning.of(GENERATED, "telemetry, a week", "covered_percent")
    note = (
        "Mean error over devices and applications, levels of applications apart. telemetry: joules by device of jobs "
        f"alone, a day and {DAYS} days; measured: all even runs. 95 % intervals of a week cover "
        f"{covered.mean():.0f} % of the generated factors."
    )
    return Table(("known of a device", *sites), rows, "Extensions: error of watts by device (%)", note)


def drift_table(found: ExtensionFigures) -> Table:
    """Return what is found of units that change."""
    labels = {
        "found_percent": "changed sockets found (%)",
        "days": "days until the alarm, median",
        "false": "false alarms beside them, sockets of 256",
        "quiet_false": "false alarms where nothing changes",
    }
    rows = [[label, with_interval(estimate(found.drifts[key]), "")] for key, label in labels.items()]
    title = f"Extensions: drift of {100 * CHANGE:.0f} % on one socket of 20, generated, {DAYS} days"
    return Table(("figure", "value"), rows, title)


def nodes_table(found: ExtensionFigures) -> Table:
    """Return the figures of real nodes."""
    labels = {
        "nodes": ("nodes", ".0f"),
        "spread_percent": ("spread of the factors (%)", ".1f"),
        "error_without_percent": ("error without factors (%)", ".2f"),
        "error_percent": ("error with factors (%)", ".2f"),
        "covered_percent": ("factors of both halves within intervals (%)", ".0f"),
        "drifts": ("nodes with an alarm in the second half", ".0f"),
    }
    rows = [
        [text, *(format(one[key], digits) for one in found.nodes.values())] for key, (text, digits) in labels.items()
    ]
    note = "Factors learned in the first half of a job, scored in the second; hours of a job are not independent."
    return Table(("figure", *(f"job {job}" for job in found.nodes)), rows, "Extensions: real nodes (emmy)", note)


def placement_table(found: ExtensionFigures, metric: str, title: str) -> Table:
    """Return the change of a metric over placement by number, by site and budget."""
    samples = found.policies
    rows = [
        [
            p,
            *(with_interval(change(*samples.pair(s, p, BY_NUMBER, metric))) for s in samples.settings),
        ]
        for p in POLICIES[1:]
    ]
    return Table(("placement", *samples.settings), rows, title)


def over_table(found: ExtensionFigures) -> Table:
    """Return the energy above the budget, which bounds what turnarounds may be compared by."""
    samples = found.policies
    rows = [
        [p, *(_cell(1e3 * samples.of(s, p, "over_j") / samples.of(s, p, "energy_j")) for s in samples.settings)]
        for p in POLICIES
    ]
    title = "Extensions: energy above the budget (per mille of the energy)"
    return Table(("placement", *samples.settings), rows, title, "A moving budget falls while jobs run.")


def moving_table(found: ExtensionFigures) -> Table:
    """Return what placement saves in turnaround, moving less still budget."""
    samples, rows = found.policies, []
    for site in dict.fromkeys(s.rpartition(", ")[0] for s in samples.settings):
        cells = []
        for policy in (OWN, TELEMETRY):
            pairs = {
                kind: samples.pair(f"{site}, {kind}", policy, BY_NUMBER, "turnaround_s") for kind in (STILL, MOVING)
            }
            gain = {kind: 100.0 * (own / base - 1.0) for kind, (own, base) in pairs.items()}
            cells.append(_cell(gain[MOVING] - gain[STILL], "+"))
        rows.append([site, *cells])
    note = "Below 0: placement wins more where the budget moves. Over placement by number, draw by draw."
    return Table(("site", OWN, TELEMETRY), rows, "Extensions: turnaround, moving less still budget (points)", note)


def joint_table(found: ExtensionFigures) -> Table:
    """Return what a joint choice could save on the schedules of own factors."""
    samples = found.policies
    labels = {
        "together_percent": "starts that come together",
        "joint_saved_percent": "saved by a joint choice at starts",
        "bound_saved_percent": "saved if all jobs could move (bound)",
    }
    rows = [[text, *(_cell(samples.of(s, OWN, key), "+") for s in samples.settings)] for key, text in labels.items()]
    return Table(("figure", *samples.settings), rows, "Extensions: joint choice, energy over own factors (%)")


def _cell(values: Floats, sign: str = "") -> str:
    """Return a mean with its interval, – where there is none."""
    return "–" if np.isnan(values).any() else with_interval(estimate(values), sign, 2)


def document(found: ExtensionFigures) -> dict[str, object]:
    """Return every figure for JSON; NaN as null."""

    def plain(values: Floats) -> list[float | None]:
        return [float(v) if np.isfinite(v) else None for v in values]

    parts = (("policies", found.policies), ("learning", found.learning))
    rows = [
        {"part": part, "setting": s, "policy": p, "metric": m, "values": plain(v)}
        for part, samples in parts
        for (s, p, m), v in samples.values.items()
    ]
    drifts = {key: plain(values) for key, values in found.drifts.items()}
    return {"results": rows, "drifts": drifts, "nodes": {job: dict(one) for job, one in found.nodes.items()}}
