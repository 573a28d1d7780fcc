"""The chance ledger: its margin by hand, what it admits, and what it is refused for."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.build import PassSettings
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


def started(cap_w: float, **options: float) -> int:
    """How many of ten jobs of a node and 100 W start at once."""
    jobs = Jobs.build(np.zeros(10), np.ones(10, int), np.full(10, 60.0), mean_power_w=np.full(10, 100.0))
    policy = load_policy("easy+estimator=oracle-mean", ledger={"part": "chance", **options})
    run = simulate(jobs, plain_machine(10, 0.0, 200.0), policy, cap=Cap.constant(cap_w))
    return int((run.schedule.start_s == 0.0).sum())


def test_without_variance_it_is_the_predicted_ledger() -> None:
    assert started(500.0, own=0.0, common=0.0) == 5
    assert started(499.9, own=0.0, common=0.0) == 4


def test_a_margin_by_hand() -> None:
    """Own errors of 20 %: n jobs need 100 n + z 20 sqrt(n); with z = 2.326, five need 604.04 W."""
    z = NormalDist().inv_cdf(0.99)
    need = 500.0 + z * 20.0 * math.sqrt(5)
    assert need == pytest.approx(604.04, abs=0.01)
    assert started(need + 0.01, epsilon=0.01, own=0.04, common=0.0) == 5
    assert started(need - 0.01, epsilon=0.01, own=0.04, common=0.0) == 4


def test_common_errors_do_not_average_out() -> None:
    """Common errors of 20 %: n jobs need 100 n (1 + z 0.2)."""
    need = 500.0 * (1.0 + NormalDist().inv_cdf(0.99) * 0.2)
    assert started(need + 0.01, epsilon=0.01, own=0.0, common=0.04) == 5
    assert started(need - 0.01, epsilon=0.01, own=0.0, common=0.04) == 4


def test_a_share_scales_what_is_expected() -> None:
    assert started(500.0, own=0.0, common=0.0, share=1.25) == 4
    assert started(500.0, own=0.0, common=0.0, share=0.8) == 6


def test_deviations_replace_the_normals() -> None:
    need = 500.0 + 3.0 * 20.0 * math.sqrt(5)
    assert started(need + 0.01, deviations=3.0, own=0.04, common=0.0) == 5
    assert started(need - 0.01, deviations=3.0, own=0.04, common=0.0) == 4


def test_even_odds_keep_no_margin() -> None:
    assert started(500.0, epsilon=0.5, own=0.09, common=0.01) == 5


def test_margins_go_with_the_jobs() -> None:
    """Two waves: when the first has ended, as many start again."""
    jobs = Jobs.build(np.zeros(8), np.ones(8, int), np.full(8, 60.0), mean_power_w=np.full(8, 100.0))
    policy = load_policy("easy+estimator=oracle-mean", ledger={"part": "chance", "own": 0.04, "common": 0.0})
    run = simulate(jobs, plain_machine(10, 0.0, 200.0), policy, cap=Cap.constant(500.0))
    assert run.schedule.start_s.tolist() == [0.0] * 4 + [60.0] * 4


def test_a_snapshot_is_decided_with_the_same_margin() -> None:
    """As a live controller asks: one job of 100 W runs, of nine that wait three more fit, as in the hand example."""
    jobs = Jobs.build(np.zeros(10), np.ones(10, int), np.full(10, 60.0))
    machine = plain_machine(10, 0.0, 200.0)
    prediction = Prediction(np.full((1, 1), 100.0), np.ones((1, 1)))
    waiting = np.arange(1, 10, dtype=np.int32)
    entries = Entries(waiting, np.zeros(9, np.int32), np.zeros(9))
    ledger = Chance(own=0.04, common=0.0)
    settings = PassSettings(codes.EASY, 0, machine.cap_scope, ledger.terms)
    one, unit = np.zeros(1, np.int32), np.zeros(1, np.int32)
    running = RunningJobs(
        one,
        np.zeros(1, np.int16),
        np.array([60.0]),
        np.array([100_000_000]),
        np.zeros(1, np.int64),
        one + 1,
        unit,
        unit,
    )
    window = Window(np.zeros(9, np.int16), np.zeros(9, np.int16))
    at = PolicySnapshot(0.0, KnownJobs.of(jobs), machine, prediction, entries, window, settings, running, 500.0)
    assert [start.job for start in decide(at)] == ["2", "3", "4"]


@given(st.floats(0.001, 0.5), st.floats(0.001, 0.5), st.floats(0, 0.2), st.floats(0, 0.02))
def test_a_smaller_epsilon_admits_no_more(a: float, b: float, own: float, common: float) -> None:
    few, many = (started(700.0, epsilon=e, own=own, common=common) for e in sorted((a, b)))
    assert few <= many <= 7


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0.0}, {"epsilon": 0.6}, {"share": 0.0}, {"own": -0.1}, {"common": math.nan}, {"deviations": -1.0}],
)
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as caught:
        Chance(**options)
    assert str(caught.value.where).startswith("chance: ")
    assert next(iter(options)) in str(caught.value.where)
    assert caught.value.hint


def test_a_plan_cannot_keep_a_growing_margin() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("conservative", ledger="chance")
    assert caught.value.hint
