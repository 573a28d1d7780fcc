"""Tiny worlds for bounds: a few jobs with options, a running job, caps that move; and the same tick by tick."""

from __future__ import annotations

import numpy as np

from tests.reference.bounds import TickWorld
from wattqueue_studies.bound.certificate import Certificate, Objective, OwnPrices
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import UNLIMITED_UW, JobChoices, Problem

MOST_W = 40


def draw_problem(rng: np.random.Generator, *, jobs: int = 4, capped: bool | None = None) -> Problem:
    """A problem of whole seconds and watts in which every job fits at the end."""
    parts = int(rng.integers(1, 3))
    units = rng.integers(2, 6, parts).astype(np.int64)
    rows: list[tuple[int, int, int, int, int]] = []
    for job in range(jobs):
        partitions = range(parts) if rng.random() < 0.5 else [int(rng.integers(parts))]
        nodes = int(rng.integers(1, 1 + min(units[p] for p in partitions)))
        run, watts = int(rng.integers(1, 6)), int(rng.integers(0, MOST_W // 2))
        for p in partitions:
            clocks = range(int(rng.integers(1, 3)))  # the lower one takes longer and draws less
            rows += [(job, p, run + clock, nodes, watts - watts // 3 * clock) for clock in clocks]
    job, part, run, nodes, watts = np.array(rows, np.int64).T
    capped = bool(rng.random() < 0.7) if capped is None else capped
    steps = int(rng.integers(1, 4))
    cap_s = np.append(-np.inf, np.sort(rng.choice(np.arange(1, 12), steps - 1, replace=False)))
    cap = rng.integers(5, MOST_W, steps)
    cap[-1] = max(int(cap[-1]), MOST_W // 2)
    options = JobChoices(
        tuple(f"j{k}" for k in range(jobs)), rng.integers(0, 6, jobs).astype(np.float64),
        np.searchsorted(job, np.arange(jobs + 1)), np.arange(len(job)), part, run.astype(np.float64), nodes,
        watts * 1_000_000, watts * run.astype(np.float64), watts * 1_000_000,
    )  # fmt: skip
    busy = int(rng.integers(0, 2))
    cap_uw = cap * 1_000_000 if capped else np.full(steps, UNLIMITED_UW)
    return Problem(
        options, units, cap_s, cap_uw, rng.integers(1, 6, busy).astype(np.float64), np.zeros(busy, np.int64),
        np.ones(busy, np.int64), np.full(busy, 3_000_000, np.int64),
    )  # fmt: skip


def ticks_of(problem: Problem, *, pays_ends: bool = True) -> TickWorld:
    """The same problem at every tick: one list of amounts a tick."""
    jobs, horizon = problem.jobs, 40
    free = []
    for t in range(horizon):
        units = problem.units.tolist()
        cap = int(problem.cap_uw[max(int(np.searchsorted(problem.cap_s, t, side="right")) - 1, 0)])
        left = cap if cap < UNLIMITED_UW else 10**15
        for k, until in enumerate(problem.busy_until_s.tolist()):
            if t < until:
                units[int(problem.busy_partition[k])] -= int(problem.busy_units[k])
                left -= int(problem.busy_uw[k])
        free.append([*units, max(left, 0)])
    options = [
        [
            (
                int(jobs.run_s[o]),
                [
                    *(int(jobs.nodes[o]) if p == jobs.partition[o] else 0 for p in range(len(problem.units))),
                    int(jobs.net_uw[o]),
                ],
                int(jobs.run_s[o]) if pays_ends else 0,
            )
            for o in range(int(jobs.first[j]), int(jobs.first[j + 1]))
        ]
        for j in range(len(jobs))
    ]
    return TickWorld([int(r) for r in jobs.release_s], options, free)


def draw_certificate(
    rng: np.random.Generator, instance: Instance, *, objective: Objective | None = None
) -> Certificate:
    """Random prices on a random grid: any are a proof."""
    shift = 6
    edge = np.unique(np.append([0, int(rng.integers(4, 20))], rng.integers(1, 20, int(rng.integers(0, 6))))).astype(
        np.int64
    )
    k, scale = len(edge) - 1, instance.free.max(axis=1).clip(1)
    price = np.rint(rng.random((len(scale), k)) * rng.choice([0.0, 1.0, 4.0], (len(scale), k)) * 64 / scale[:, None])
    low = rng.integers(0, k, len(instance))
    count = np.array([rng.integers(0, k - first + 1) for first in low]) * int(rng.integers(0, 2))
    first = np.append(0, np.cumsum(count)).astype(np.int64)
    resource = int(rng.integers(len(instance.free)))
    unit = 1 if resource < instance.parts else int(instance.free[resource].max()) // int(rng.integers(3, 9)) + 1
    own = OwnPrices(
        resource, low.astype(np.int64), first, rng.integers(0, 150, int(first[-1])).astype(np.int64), unit
    )  # fmt: skip
    return Certificate(shift, edge, price.astype(np.int64), own, objective or Objective())
