"""Eq. 1 on real nodes: two jobs on 32 nodes each, trained on the first half of the run, scored on the second.

Counters of components are not recorded there; load, clock, instructions per cycle, FLOP rate and memory bandwidth take
their place. PR: weights of one node times the ratio of mean watts in the first half, of the same job, since no other
benchmark ran there. VT: each node's own weights. Two plain predictions show what either adds: the weights of one node
without a ratio, and each node's mean of the first half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.clustercockpit import ACTIVITY, NodeSeries
from wattqueue.model.jobs import Floats
from wattqueue.pmc.models import mape_percent
from wattqueue.pmc.weights import least_squares
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.study.frame.table import Table, with_interval

AGNOSTIC, OWN_MEAN = "one node's weights, no ratio", "own mean of the first half"
PREDICTIONS = ("VT, own weights", "PR, one node's weights", AGNOSTIC, OWN_MEAN)
"""Predictions compared, with and without a constant but for the last."""
FEWEST = 60
"""Samples that a half of a node's run must have: an hour."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeCheck:
    """Errors of one job's nodes in the second half.

    Attributes:
        job: The job.
        nodes: Nodes that could be used, and all of them.
        variation_percent: CV of the nodes' mean watts.
        samples_percent: MAPE of 60 s samples of each node by (prediction, with constant). Shapes (nodes,).
        mean_percent: Error of each node's mean watts, likewise.
    """

    job: str
    nodes: tuple[int, int]
    variation_percent: float
    samples_percent: Mapping[tuple[str, bool], Floats]
    mean_percent: Mapping[tuple[str, bool], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class _Halves:
    """Training and test samples of one node."""

    level: tuple[Floats, Floats]
    watts: tuple[Floats, Floats]


def check_nodes(series: Sequence[NodeSeries]) -> list[NodeCheck]:
    """Return the check of each job.

    Raises: InputError for a job with fewer than two nodes that have enough samples in both halves.
    """
    jobs = dict.fromkeys(s.job for s in series)
    return [_check([s for s in series if s.job == job]) for job in jobs]


def _check(series: Sequence[NodeSeries]) -> NodeCheck:
    """Return the check of one job. Raises: InputError."""
    halves = [h for h in map(_halves, series) if h is not None]
    if len(halves) < 2:
        raise InputError(f"{len(halves)} nodes with enough samples", where=f"job {series[0].job}")
    means = np.array([np.concatenate(h.watts).mean() for h in halves])
    samples: dict[tuple[str, bool], Floats] = {}
    totals: dict[tuple[str, bool], Floats] = {}
    for constant in (False, True):
        errors = _errors(halves, constant)
        for name, (of_samples, of_mean) in errors.items():
            samples[name, constant], totals[name, constant] = of_samples, of_mean
    variation = float(100 * means.std(ddof=1) / means.mean())
    return NodeCheck(series[0].job, (len(halves), len(series)), variation, samples, totals)


def _halves(series: NodeSeries) -> _Halves | None:
    """Return a node's samples by half of its run; None if one of them has too few."""
    if not len(series.time_s):
        return None
    first = series.time_s <= (series.time_s[0] + series.time_s[-1]) / 2
    if min(first.sum(), (~first).sum()) < FEWEST:
        return None
    level, watts = series.activity, series.watts
    return _Halves((level[first], level[~first]), (watts[first], watts[~first]))


def _errors(halves: Sequence[_Halves], constant: bool) -> dict[str, tuple[Floats, Floats]]:
    """Return errors of samples and of means by prediction; those of one node's weights are means over that node."""
    weights = np.stack([least_squares(_columns(h.level[0], constant), h.watts[0], _names(constant)) for h in halves])
    first_w = np.array([h.watts[0].mean() for h in halves])
    n = len(halves)
    found = {name: (np.zeros(n), np.zeros(n)) for name in PREDICTIONS}
    for k, node in enumerate(halves):
        actual, columns = node.watts[1], _columns(node.level[1], constant)
        others = np.delete(np.arange(n), k)
        by_node = columns @ weights.T
        ratio = first_w[k] / first_w
        for name, predicted in (
            (PREDICTIONS[0], by_node[:, [k]]),
            (PREDICTIONS[1], (by_node * ratio)[:, others]),
            (AGNOSTIC, by_node[:, others]),
            (OWN_MEAN, np.full((len(actual), 1), first_w[k])),
        ):
            found[name][0][k] = mape_percent(actual[:, None], predicted).mean()
            found[name][1][k] = 100 * np.abs(predicted.mean(axis=0) / actual.mean() - 1).mean()
    return found


def _columns(level: Floats, constant: bool) -> Floats:
    """Return activity, with a column of ones for the constant."""
    return np.column_stack([level, np.ones(len(level))]) if constant else level


def _names(constant: bool) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*ACTIVITY, "constant") if constant else ACTIVITY


def node_table(checks: Sequence[NodeCheck]) -> Table:
    """Return the errors of all jobs, means over nodes with 95 % intervals."""
    rows = []
    for check in checks:
        for (name, constant), samples in check.samples_percent.items():
            if name == OWN_MEAN and constant:
                continue
            what = f"{check.job}: {name}" + (", constant" if constant else "")
            errors = (samples, check.mean_percent[name, constant])
            rows.append([what, *(with_interval(estimate(e), "") for e in errors)])
    said = [f"job {c.job}: {c.nodes[0]} of {c.nodes[1]} nodes, CV {c.variation_percent:.1f} %" for c in checks]
    return Table(
        ("prediction", "MAPE of samples %", "error of the mean %"),
        rows,
        "Real nodes (emmy): trained on the first half of the run, scored on the second",
        f"{'; '.join(said)}. One node's weights: means over every other node as that one.",
        key="nodes",
    )


def node_rows(checks: Sequence[NodeCheck]) -> list[dict[str, object]]:
    """Return the rows for JSON."""

    def figure(found: Estimate) -> dict[str, float | None]:
        return {"mean": found.mean, "low": found.low, "high": found.high}

    return [
        {
            "job": check.job,
            "nodes": check.nodes[0],
            "prediction": name,
            "constant": constant,
            "samples_percent": figure(estimate(samples)),
            "mean_percent": figure(estimate(check.mean_percent[name, constant])),
        }
        for check in checks
        for (name, constant), samples in check.samples_percent.items()
    ]
