"""Parts of all five papers in one row: each combination runs right, or is refused with a reason and a remedy.

Three estimators (paper 1's EAR, learned history, paper 2's watts of units), each with partitions and clocks by energy
(paper 1), with windows and nodes switched off (paper 3), and with lower clocks by consent in load targets (paper 5);
beside them placements, ledgers and controls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants
from wattqueue.errors import PolicyError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

APPS = ("1", "2", "5")
"""Applications of paper 1's Table 1, by which EAR's part predicts."""
MACHINE = Machine(
    "both",
    (
        Partition("p1", 4, frequencies_hz=(2.7e9, 2.2e9, 1.6e9), idle_w=100.0, max_w=500.0, off_w=5.0),
        Partition("p2", 4, frequencies_hz=(3.1e9, 2.4e9, 1.6e9), idle_w=110.0, max_w=500.0, off_w=5.0),
    ),
    sensor=PowerSensor(sample_s=1.0, poll_s=4.0, covers="node"),
)
CAP = Cap(np.array([-np.inf, 400.0]), np.array([2_600.0, 2_100.0]))
TARGETS = LoadTargets.of(LoadTarget(250.0, 500.0, 1_700.0, notice_s=100.0))


def jobs(n: int = 18) -> Jobs:
    rng = np.random.default_rng(30)
    consent = Consent.build(n, allowed=(np.arange(n) % 2).astype(float))
    run_s = rng.integers(40, 120, n).astype(float)
    return Jobs.build(
        np.sort(rng.uniform(0.0, 300.0, n)), rng.integers(1, 4, n), run_s, walltime_s=2.0 * run_s, consent=consent,
        app=rng.choice(APPS, n), user=rng.choice(["ada", "bob"], n), mean_power_w=rng.uniform(250.0, 400.0, n),
    )  # fmt: skip


def table() -> UnitTable:
    rng = np.random.default_rng(31)
    return UnitTable.of_watts((*APPS, "cholesky"), [str(u) for u in range(8)], rng.uniform(280.0, 380.0, (4, 8)))


ESTIMATORS: dict[str, Any] = {
    "ear": "ear",
    "history": "history-mean",
    "unit-watts": {"part": "unit-watts", "table": table()},
}
LIMITS = {"minimum_w": 110.0, "maximum_w": 500.0}
BENCHMARK = {"part": "benchmark", "table": table()}
EAMC: dict[str, Any] = {"order": "priority-inc", "frequency": {"part": "least-distance", "t_weight": 0.2}}
PAS: dict[str, Any] = {"frequency": {"part": "frequency-window", "lowest_hz": 0.0}, "controls": ["idle-off"]}
CONSENT: dict[str, Any] = {"frequency": ["least-distance-or-lower", "consent"], "controls": ["slow-consenting"]}
LENDING = {"part": "rapl-lending", **LIMITS}
ROWS: dict[str, dict[str, Any]] = {
    "eamc": EAMC,
    "eamc, least-watts": {**EAMC, "placement": "least-watts"},
    "eamc, in-flight, rapl-lending": {**EAMC, "ledger": "in-flight", "controls": [LENDING]},
    "pas": PAS,
    "pas, measured, rapl-redistribution": {
        **PAS, "ledger": "measured", "controls": ["idle-off", {"part": "rapl-redistribution", **LIMITS}],
    },
    "pas, benchmark, chance": {**PAS, "placement": BENCHMARK, "ledger": "chance"},
    "consent, in-flight": {**CONSENT, "ledger": "in-flight"},
    "consent, benchmark, in-flight, rapl-lending": {
        **CONSENT, "placement": BENCHMARK, "ledger": "in-flight", "controls": ["slow-consenting", LENDING],
    },
}  # fmt: skip
NOTHING_TO_RANK = "placement least-watts has nothing to rank units by"
REFUSED = {("ear", "eamc, least-watts"): NOTHING_TO_RANK, ("history", "eamc, least-watts"): NOTHING_TO_RANK}
"""Combinations that are refused, with the reason."""


def run(estimator: str, row: str, **other: Any) -> Run:
    policy = load_policy("easy", estimator=ESTIMATORS[estimator], **{**ROWS[row], **other})
    done = simulate(jobs(), MACHINE, policy, cap=CAP, targets=TARGETS if "consent" in row else None)
    check_invariants(done)  # units, jobs, and energy as the integral of power
    return done


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_combination_runs_right_or_is_refused(estimator: str, row: str) -> None:
    if (estimator, row) in REFUSED:
        with pytest.raises(PolicyError, match=REFUSED[estimator, row]) as caught:
            run(estimator, row)
        assert caught.value.hint
        return
    done = run(estimator, row)
    assert done.schedule.ran.all()
    assert done.without_effect == ()
    watts = done.jobs.mean_power_w
    assert watts is not None
    # What all jobs draw is what each of them draws, slowed or not, for as long as it runs.
    held_s = done.schedule.end_s - done.schedule.start_s
    most_j, least_j = watts * done.jobs.nodes * held_s, 100.0 * done.jobs.nodes * held_s
    assert (done.schedule.energy_j <= most_j * (1 + 1e-6)).all()
    assert (done.schedule.energy_j >= least_j * (1 - 1e-6)).all()
    at_highest = np.isin(done.schedule.option, MACHINE.option_start[:-1])
    if "controls" not in ROWS[row]:  # nothing slows a job that runs at its highest frequency
        np.testing.assert_allclose(done.schedule.energy_j[at_highest], most_j[at_highest], rtol=1e-6)


ACTING = {"eamc, least-watts": ("unit-watts", ("frequency", "placement")), "pas": ("history", tuple(PAS))}
"""With which estimator which choices of a row are left out one by one, where it is not EAR's and all of them."""


@pytest.mark.parametrize("row", ROWS)
def test_each_choice_of_a_row_acts(row: str) -> None:
    """Without a choice something is otherwise: a start, a frequency, an energy or a unit."""
    estimator, axes = ACTING.get(row, ("ear", tuple(ROWS[row])))
    whole = run(estimator, row)
    plain = {"order": "fcfs", "frequency": "highest", "placement": "lowest", "ledger": "predicted", "controls": []}
    for axis in axes:
        less = run(estimator, row, **{axis: plain[axis]})
        same = [
            np.array_equal(getattr(whole.schedule, name), getattr(less.schedule, name))
            for name in ("start_s", "option", "energy_j", "unit_low")
        ]
        assert not all(same), axis
