"""Months of generated work in which the watts of jobs surprise: habits that break, and the ramps of a real machine.

``habits_break``: from the middle on, every user has another generated user's habits, sizes and watts included, under
the same name: what an estimator learned is wrong at once. ``habits_drift``: habits drift four times as far as the
generator's. ``with_ramps``: a wide job runs twice a day and draws what a recorded machine drew, relative to its highest
power, as a share of a node's maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.profiles import PERIOD_S, PowerProfiles
from wattqueue.model.steps import Steps
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.marconi import NODE_LEAST_W, NODE_MAX_W, generate

DRIFT = 4.0
"""How much farther habits drift than the generator's: assumed."""
RAMP_USER = "ramps"
"""User and application of the job that ramps."""
RAMPS_A_DAY = 2
"""How often it runs: assumed."""
RAMP_WALL = 2.0
"""Its walltime, relative to its run time: assumed."""


def habits_break(seed: int, days: float, load: float, nodes: int, at_s: float) -> Jobs:
    """Return a generated trace whose users have the habits of another trace from ``at_s`` on."""
    before, after = (
        generate(np.random.default_rng([seed, part]), days=days, load=load, nodes=nodes) for part in (0, 1)
    )
    return joined([before.take(before.submit_s < at_s), after.take(after.submit_s >= at_s)])


def habits_drift(seed: int, days: float, load: float, nodes: int) -> Jobs:
    """Return a generated trace whose users' habits drift ``DRIFT`` times as far as they do by default."""
    return generate(np.random.default_rng(seed), days=days, load=load, nodes=nodes, drift=DRIFT)


def with_ramps(jobs: Jobs, ramps: Steps, days: float, nodes: int) -> Jobs:
    """Return the jobs and, ``RAMPS_A_DAY`` times a day, one of ``nodes`` nodes that draws what ``ramps`` says.

    Watts on any scale.
    """
    level = ramp_w(ramps)
    count = int(days * RAMPS_A_DAY)
    submit = np.arange(count) * (DAY_S / RAMPS_A_DAY)
    run = np.full(count, len(level) * PERIOD_S)
    pattern, one = np.zeros(count, np.int32), np.ones(count)
    profiles = PowerProfiles(
        pattern, np.zeros(count), one, level, np.array([0, len(level)]), np.array([len(level) - 1]), PERIOD_S
    )
    more = Jobs.build(
        submit, np.full(count, nodes), run, walltime_s=run * RAMP_WALL, user=[RAMP_USER] * count,
        app=[RAMP_USER] * count, mean_power_w=profiles.mean_power_w(run), max_power_w=profiles.max_power_w(run),
        origin="generated", profiles=profiles,
    )  # fmt: skip
    return joined([jobs, more])


def ramp_w(ramps: Steps) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return watts of a node in each period of a profile: the recorded share of the highest power. Shape (k,).

    Raises: InputError for fewer than two rows, or no power.
    """
    highest = float(ramps.value.max(initial=0.0))
    if len(ramps.value) < 2 or not highest > 0.0:
        raise InputError("ramps need two rows or more, and power", where="ramps")
    begin, end = float(ramps.time_s[0]), float(ramps.time_s[-1])
    edges: Floats = begin + np.arange(int((end - begin) // PERIOD_S) + 1, dtype=np.float64) * PERIOD_S
    share = np.asarray(ramps.means(edges), np.float64) / highest
    return np.maximum(share * NODE_MAX_W, NODE_LEAST_W).astype(np.float32)


def joined(tables: Sequence[Jobs]) -> Jobs:
    """Return the jobs of several tables in order of submission; users and applications of equal names are the same.

    All tables must have power profiles of one period.
    """
    parts = [table.profiles for table in tables if table.profiles is not None]
    if len(parts) != len(tables):
        raise InputError("a table without power profiles", where="jobs")
    patterns = np.cumsum([0, *(len(p.resume) for p in parts)])
    samples = np.cumsum([0, *(len(p.level) for p in parts)])
    first = [p.first[:-1] + offset for p, offset in zip(parts, samples, strict=False)]
    profiles = PowerProfiles(
        np.concatenate([p.pattern + by for p, by in zip(parts, patterns, strict=False)]).astype(np.int32),
        np.concatenate([p.base_w for p in parts]),
        np.concatenate([p.scale_w for p in parts]),
        np.concatenate([p.level for p in parts]),
        np.append(np.concatenate(first), samples[-1]),
        np.concatenate([p.resume for p in parts]),
        parts[0].period_s,
    )
    columns = {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ("submit_s", "nodes", "runtime_s", "walltime_s", "mean_power_w", "max_power_w")
    }
    whole = Jobs.build(
        columns.pop("submit_s"), columns.pop("nodes"), columns.pop("runtime_s"), **columns, origin="generated",
        user=_labels([table.user for table in tables]), app=_labels([table.app for table in tables]),
        profiles=profiles,
    )  # fmt: skip
    order = np.argsort(whole.submit_s, kind="stable")
    return replace(whole.take(order), job_id=whole.job_id)


def _labels(columns: Sequence[Labels]) -> Labels:
    """Return the rows of several label columns as one."""
    names = tuple(dict.fromkeys(name for column in columns for name in column.names))
    at = {name: code for code, name in enumerate(names)}
    codes = [np.array([*(at[name] for name in c.names), -1], np.int32)[c.codes] for c in columns]
    return Labels(np.concatenate(codes), names)
