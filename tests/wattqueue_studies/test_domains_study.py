"""The study of power domains: the worlds that it draws, and a small run of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue_studies.domains.study import ANNOUNCED, BALANCED, CAP, LOWEST, DomainsStudy, excess, simulated_run
from wattqueue_studies.domains.world import Design, without_tree

SMALL = replace(
    Design.stated(), racks=10, nodes=8, rows=2, jobs=60, widest=20, seeds=2, bounds=(2,), rack_nodes=(24, 28),
    derated_h=(1.0, 3.0), hall=Design.stated().hall | {"mw": 0.1, "jobs": 40.0, "widest": 6.0},
)  # fmt: skip


def test_limits_are_those_of_the_design() -> None:
    """Racks of 70 and 50 % by turns; a row carries 97 % of its racks, the contract 95 % of its rows."""
    machine = SMALL.mixed("70 / 50 %")
    limits = {domain.name: domain.limit_w for domain in machine.supply}
    whole = 8 * 140.0
    assert limits["rack001"] == pytest.approx(0.7 * whole)
    assert limits["rack002"] == pytest.approx(0.5 * whole)
    assert limits["row01"] == pytest.approx(0.97 * (3 * 0.7 + 2 * 0.5) * whole)
    assert limits["contract"] == pytest.approx(0.95 * 0.97 * 10 * 0.6 * whole)
    assert SMALL.behind_breakers(28).units == 280
    assert SMALL.behind_breakers(28).supply[0].limit_w == 24 * 140.0
    derated = {domain.name: domain for domain in SMALL.derate(machine).supply}
    assert derated["row01"].limits_w[1] == pytest.approx(0.6 * derated["row01"].limits_w[0])
    assert derated["row02"].limit_w == limits["row02"]
    assert [domain.name for domain in without_tree(machine).supply] == ["contract"]


def test_jobs_are_those_of_their_seed_and_draw_no_more_than_the_maximum() -> None:
    jobs, other = SMALL.draw(1, error=0.3), SMALL.draw(2)
    np.testing.assert_array_equal(jobs.nodes, SMALL.draw(1).nodes)
    assert not np.array_equal(jobs.nodes, other.nodes)
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    assert other.mean_power_w is not None
    assert float(jobs.mean_power_w.max()) <= SMALL.max_w
    assert not np.array_equal(jobs.mean_power_w, jobs.max_power_w)
    assert other.max_power_w is not None
    np.testing.assert_array_equal(other.mean_power_w, other.max_power_w)


def test_a_tree_keeps_every_rack_and_one_cap_does_not() -> None:
    """By true watts that are those counted: no rack above its limit, and some without the tree."""
    machine, jobs = SMALL.mixed("equal racks"), SMALL.draw(1)
    assert excess(simulated_run(machine, jobs, {"part": LOWEST})) == (0.0, 0.0)
    free = simulated_run(without_tree(machine), jobs, {"part": LOWEST})
    share, most = excess(replace(free, machine=machine))
    assert share > 0.0
    assert most > 0.0


def test_a_small_run() -> None:
    report = DomainsStudy(SMALL, 1).run()
    levels = {(row["setting"], row["policy"], row["metric"]): row["values"] for row in report.figures["levels"]}
    for mix in SMALL.mixes:
        assert np.mean(levels[mix, BALANCED, "stranded_percent"]) < np.mean(levels[mix, LOWEST, "stranded_percent"])
        assert levels[mix, CAP, "stranded_percent"] == [0.0, 0.0]
        assert np.mean(levels[mix, "watt-balanced, 2 racks", "racks"]) <= np.mean(levels[mix, BALANCED, "racks"])
    derated = {(row["setting"], row["policy"], row["metric"]): row["values"] for row in report.figures["derated"]}
    for part in (LOWEST, BALANCED):
        assert max(derated["a row derated", part, "row_over_h"]) > 0.0
        assert derated["a row derated", f"{part}{ANNOUNCED}", "row_over_h"] == [0.0, 0.0]
        assert derated["limits as stated", part, "row_over_h"] == [0.0, 0.0]
    gpus = {(row["setting"], row["metric"]): row["values"] for row in report.figures["gpus"]}
    assert [gpus[f"limit {limit_w:g} W", "hall_nodes"][0] for limit_w in SMALL.gpu_limits_w] == [14, 16, 19, 24]
    assert all(gpus[f"limit {limit_w:g} W", "overshoot_percent"] == [0.0, 0.0] for limit_w in SMALL.gpu_limits_w)
    assert "Nodes behind breakers" in "\n".join(report.lines())
    assert report.html().count("rack001") > 0
