"""Factors learned from telemetry alone, scored: generated sockets, measured devices, and real nodes of two jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.chips.extensions.sites import DAY_S, DAYS, Site, ratios, telemetry
from wattqueue_studies.clustercockpit import NodeSeries
from wattqueue_studies.frame.samples import Trial
from wattqueue_studies.unit_telemetry import ONE_JOB, LearnedFactors, UnitTelemetry, find_drifts, learn_factors

KNOWLEDGE = ("no factors", "one benchmark", "telemetry, a day", "telemetry, a week", "own runs")
"""What watts are foretold by: the application's mean, with a factor of the benchmark, of the telemetry, or of its own
runs on every device (VT's prediction for generated sockets)."""
DRIFTED, CHANGE = 20, 0.05
"""One unit of so many changes by so much after the first week."""
BLOCK_S, FEWEST = 3_600.0, 45
"""Real nodes: a mean over an hour counts as a job; samples of 60 s that a node must have in it. The last hour, in which
the job ends, has fewer: nodes do not end together."""


def errors(site: Site) -> Trial:
    """Return the figures of each kind of knowledge: error of watts on all devices, level apart, and coverage.

    The level of an application is not scored: predictions are scaled to its true mean over the devices.
    """
    true = site.devices.true_w
    has_days = bool(site.week.time_s[-1] > 0)
    tables: dict[str, Floats] = {
        "no factors": np.ones_like(true),
        "one benchmark": np.tile(ratios(site.benchmark_w), (len(true), 1)),
        "own runs": site.devices.known_w,
    }
    learned = {"telemetry, a week": learn_factors(site.week, true.shape[1])}
    if has_days:
        learned["telemetry, a day"] = learn_factors(site.week.between(0.0, DAY_S), true.shape[1])
    tables |= {name: np.tile(found.factor, (len(true), 1)) for name, found in learned.items()}

    def figures(name: str) -> Mapping[str, float]:
        if name not in tables:
            return {"error_percent": np.nan, "covered_percent": np.nan}
        scaled = tables[name] / tables[name].mean(axis=1, keepdims=True) * true.mean(axis=1, keepdims=True)
        error = float(100.0 * np.abs(scaled / true - 1.0).mean())
        covered = covered_percent(learned[name], _common(true)) if name in learned and has_days else np.nan
        return {"error_percent": error, "covered_percent": covered}

    return figures


def _common(true_w: Floats) -> Floats:
    """Return the factor of each unit that all applications have in common: the mean of logarithms. Shape (U,)."""
    log_w = np.log(true_w)
    return ratios(np.exp((log_w - log_w.mean(axis=1, keepdims=True)).mean(axis=0)))


def covered_percent(learned: LearnedFactors, factor: Floats) -> float:
    """Return how many factors lie within their 95 % intervals."""
    return float(100.0 * ((learned.low <= factor) & (factor <= learned.high)).mean())


def drifts(site: Site, seed: int) -> Mapping[str, float]:
    """Return what is found of units that change after the first week: share, false alarms, days until the alarm."""
    rng = np.random.default_rng([seed, 19])
    true = site.devices.true_w
    learned = learn_factors(site.week, true.shape[1])
    changed = rng.choice(true.shape[1], true.shape[1] // DRIFTED, replace=False)
    later = true.copy()
    later[:, changed] *= np.where(np.arange(len(changed)) % 2, 1.0 + CHANGE, 1.0 - CHANGE)
    found = find_drifts(learned, telemetry(rng, later, DAYS, DAYS))
    right = [drift for drift in found if drift.unit in changed]
    days = [drift.time_s / DAY_S - DAYS for drift in right]
    quiet = find_drifts(learned, telemetry(rng, true, DAYS, DAYS))
    return {
        "found_percent": 100.0 * len(right) / len(changed),
        "false": float(len(found) - len(right)),
        "quiet_false": float(len(quiet)),
        "days": float(np.median(days)) if days else np.nan,
    }


def node_figures(series: Sequence[NodeSeries]) -> dict[str, dict[str, float]]:
    """Return factors of real nodes, learned in the first half of each job and scored in the second, by job.

    Hours count as jobs: 60 s samples of a node are not independent.
    """
    found = {}
    for job in dict.fromkeys(one.job for one in series):
        nodes = [one for one in series if one.job == job]
        hourly = _hours(nodes)
        middle = (hourly.time_s[0] + hourly.time_s[-1]) / 2
        first, second = hourly.between(-np.inf, middle), hourly.between(middle, np.inf)
        learned, again = (learn_factors(half, len(nodes)) for half in (first, second))
        sd = np.hypot(learned.log_sd, again.log_sd)
        found[job] = {
            "nodes": float(len(nodes)),
            "error_without_percent": float(100.0 * np.abs(1.0 / again.factor - 1.0).mean()),
            "error_percent": float(100.0 * np.abs(learned.factor / again.factor - 1.0).mean()),
            "covered_percent": float(100.0 * (np.abs(np.log(learned.factor / again.factor)) <= 1.96 * sd).mean()),
            "drifts": float(len(find_drifts(learned, second))),
            "spread_percent": 100.0 * learned.spread,
        }
    return found


def _hours(nodes: Sequence[NodeSeries]) -> UnitTelemetry:
    """Return the mean watts of each node by hour; hours with too few samples are left out."""
    rows = []
    for unit, node in enumerate(nodes):
        hour = (node.time_s // BLOCK_S).astype(np.int64)
        full = np.flatnonzero(np.bincount(hour) >= FEWEST)
        rows += [(int(h), unit, float(node.watts[hour == h].mean())) for h in full]
    number, units, watts = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return UnitTelemetry(BLOCK_S * (number + 1.0), number, np.full(len(number), ONE_JOB), units, watts)
