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
from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.clustercockpit import ACTIVITY, NodeSeries
from wattqueue_studies.pmc.models import mape_percent
from wattqueue_studies.pmc.weights import least_squares, with_constant

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
        percent: Errors by (prediction, with constant): MAPE of 60 s samples of each node, and the error of its mean
            watts. Shapes (2, nodes).
    """

    job: str
    nodes: tuple[int, int]
    variation_percent: float
    percent: Mapping[tuple[str, bool], Floats]


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
    means = np.array([np.concatenate((first.watts, second.watts)).mean() for first, second in halves])
    errors = {(name, c): found for c in (False, True) for name, found in _errors(halves, c).items()}
    variation = float(100 * means.std(ddof=1) / means.mean())
    return NodeCheck(series[0].job, (len(halves), len(series)), variation, errors)


def _halves(series: NodeSeries) -> tuple[NodeSeries, NodeSeries] | None:
    """Return a node's samples by half of its run; None if one of them has too few."""
    first = series.time_s <= (series.time_s[:1] + series.time_s[-1:]) / 2
    if min(first.sum(), (~first).sum()) < FEWEST:
        return None
    return series.where(first), series.where(~first)


def _errors(halves: Sequence[tuple[NodeSeries, NodeSeries]], constant: bool) -> dict[str, Floats]:
    """Return errors of samples and of means by prediction; those of one node's weights are means over that node."""
    columns = [[with_constant(half.activity) if constant else half.activity for half in pair] for pair in halves]
    names = (*ACTIVITY, "constant") if constant else ACTIVITY
    weights = np.stack([least_squares(c[0], h.watts, names) for c, (h, _) in zip(columns, halves, strict=True)])
    first_w = np.array([h.watts.mean() for h, _ in halves])
    found = {name: np.zeros((2, len(halves))) for name in PREDICTIONS}
    for k, (_, node) in enumerate(halves):
        others = np.delete(np.arange(len(halves)), k)
        by_node = columns[k][1] @ weights.T
        guesses = (
            by_node[:, [k]],
            (by_node * (first_w[k] / first_w))[:, others],
            by_node[:, others],
            np.full((len(node.watts), 1), first_w[k]),
        )
        for name, predicted in zip(PREDICTIONS, guesses, strict=True):
            of_samples = mape_percent(node.watts[:, None], predicted).mean()
            of_mean = 100 * np.abs(predicted.mean(axis=0) / node.watts.mean() - 1).mean()
            found[name][:, k] = of_samples, of_mean
    return found


def node_table(checks: Sequence[NodeCheck]) -> Table:
    """Return the errors of all jobs, means over nodes with 95 % intervals."""
    shown = {
        f"{check.job}: {name}" + (", constant" if constant else ""): errors
        for check in checks
        for (name, constant), errors in check.percent.items()
        if not (name == OWN_MEAN and constant)
    }
    columns = (
        ("MAPE of samples %", lambda what: with_interval(estimate(shown[what][0]), "")),
        ("error of the mean %", lambda what: with_interval(estimate(shown[what][1]), "")),
    )
    said = [f"job {c.job}: {c.nodes[0]} of {c.nodes[1]} nodes, CV {c.variation_percent:.1f} %" for c in checks]
    title = "Real nodes (emmy): trained on the first half of the run, scored on the second"
    note = f"{'; '.join(said)}. One node's weights: means over every other node as that one."
    return Table.of(list(shown), columns, title, note, head="prediction", key="nodes")


def node_rows(checks: Sequence[NodeCheck]) -> list[dict[str, object]]:
    """Return the rows for JSON."""
    return [
        {
            "job": check.job,
            "nodes": check.nodes[0],
            "prediction": name,
            "constant": constant,
            "samples_percent": estimate(errors[0]).document(),
            "mean_percent": estimate(errors[1]).document(),
        }
        for check in checks
        for (name, constant), errors in check.percent.items()
    ]
