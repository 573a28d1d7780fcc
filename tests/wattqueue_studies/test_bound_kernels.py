"""Kernels of bounds against their definitions: serial schedules tick by tick, cheapest starts, best sets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.bounds import best_set
from tests.wattqueue_studies.bound_worlds import draw_certificate, draw_problem, ticks_of
from wattqueue.kernels.cheapest_start import cheapest_starts
from wattqueue.kernels.knapsack import Knapsacks, best_sets
from wattqueue_studies.bound.certificate import GoalRates, cheapest_costs
from wattqueue_studies.bound.columns import Pricing
from wattqueue_studies.bound.problem import instance_of
from wattqueue_studies.bound.schedules import Lists

SEEDS = range(25)


@pytest.mark.parametrize("jobs", [4, 40])
def test_a_list_is_scheduled_as_tick_by_tick(jobs: int) -> None:
    """With 40 jobs several options are of one class, and most of what is free early is too little for them."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng, jobs=jobs)
        order = rng.permutation(len(problem.jobs)).astype(np.int64)
        found, twin = Lists(problem).schedule(order), ticks_of(problem).list_schedule(order.tolist())
        assert found is not None
        assert twin is not None
        assert found.start.tolist() == [start for start, _ in twin]
        assert (found.option - problem.jobs.first[:-1]).tolist() == [option for _, option in twin]


@pytest.mark.parametrize("tries", [0, 1, 60])
def test_a_part_of_a_list_improves_and_leaves_what_stands_before_it(tries: int) -> None:
    """What annealing returns is the sum of the list that it leaves: `anneal` begins anew from saved profiles."""
    better = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        lists = Lists(draw_problem(rng, jobs=20))
        begin = lists.schedule(np.arange(20))
        assert begin is not None
        low, high = sorted(rng.choice(21, 2, replace=False).tolist())
        order = begin.order()
        least, best = lists.annealed(order, (low, 20), lists.draws(tries, rng, high - low), 50.0)
        whole = np.concatenate((order[:low], best))
        assert sorted(whole.tolist()) == list(range(20))
        assert best[high - low :].tolist() == order[high:].tolist()
        found, before = lists.schedule(whole), lists.schedule(order)
        assert found is not None
        assert before is not None
        assert found.start[order[:low]].tolist() == before.start[order[:low]].tolist()
        costs = found.start + lists.jobs.pay[found.option]
        assert int(costs[best].sum()) == least
        assert found.total <= before.total
        better += found.total < before.total
    assert better <= tries * len(SEEDS)
    assert tries < 60 or better > len(SEEDS) // 2


@pytest.mark.parametrize("blocks", [1, 3])
def test_cheapest_starts_are_those_of_the_certificate(blocks: int) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        instance = instance_of(draw_problem(rng))
        certificate = draw_certificate(rng, instance)
        pricing = Pricing(instance, certificate.edge, GoalRates(), certificate.own)
        pricing.grid.own[:] = certificate.own.value / 64.0
        found = pricing.found(blocks)
        pricing.grid.price[:-1] = certificate.price / 64.0
        total = cheapest_starts(pricing.jobs, pricing.grid, found)
        exact = cheapest_costs(certificate, instance) / 64.0
        assert found.value.min(axis=1).tolist() == exact.tolist()
        assert total == pytest.approx(exact.sum(), rel=1e-12)


def test_best_sets_are_those_of_all_subsets() -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 7, 4)
        first = np.append(0, np.cumsum(counts)).astype(np.int64)
        h = int(first[-1])
        item = rng.permutation(h).astype(np.int64)
        worth, nodes, room = rng.integers(0, 20, h).astype(float), rng.integers(0, 6, h), rng.integers(0, 12, 4)
        sacks = Knapsacks(first, item, worth, nodes, room, np.zeros(h, np.int8), np.zeros((8, 13)))
        length = rng.integers(1, 5, 4).astype(float)
        total = 0.0
        for k in range(4):
            inside = item[first[k] : first[k + 1]]
            total += best_set(worth[inside].tolist(), nodes[inside].tolist(), int(room[k])) * length[k]
        assert best_sets(sacks, length) == pytest.approx(total, rel=1e-12)
        for k in range(4):
            inside = item[first[k] : first[k + 1]]
            chosen = inside[sacks.chosen[inside] == 1]
            assert nodes[chosen].sum() <= room[k]
        every = np.repeat(length, counts)
        assert float((worth[item] * sacks.chosen[item] * every).sum()) == pytest.approx(total, rel=1e-12)
