"""Figures of merit, computed by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.evaluation.evaluate import evaluate_all, maker
from wattqueue.evaluation.page import document
from wattqueue.evaluation.scores import score, user_errors
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator_replay import reference_options, replay_estimator
from wattqueue.parts.timeline import trace_timeline
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.prediction.scores import watts_shares

USER = np.array([0, 0, 1, -1, 2, 2], np.int32)
ACTUAL = np.array([100.0, 200.0, 400.0, 500.0, 0.0, np.nan])
PREDICTED = np.array([110.0, 150.0, 400.0, np.nan, 300.0, 300.0])


def test_errors_overall_and_by_user() -> None:
    got = score("x", PREDICTED, ACTUAL, USER, cpu_s=6e-6)
    assert got.jobs == 3
    assert got.unpredicted == 1
    assert got.mape_percent == pytest.approx(100 * (0.10 + 0.25 + 0.0) / 3)
    np.testing.assert_allclose(got.user_mape, [17.5, 0.0])
    assert got.mape_user_mean_percent == pytest.approx(8.75)
    assert got.mape_user_median_percent == pytest.approx(8.75)
    assert got.prediction_cpu_s == pytest.approx(1e-6)


def test_how_often_and_how_far_too_low() -> None:
    got = score("x", PREDICTED, ACTUAL, USER)
    assert got.under_share == pytest.approx(1 / 3)
    assert got.under_p95_percent == pytest.approx(np.percentile([0.0, 25.0, 0.0], 95))
    assert got.under_p95_w == pytest.approx(np.percentile([0.0, 50.0, 0.0], 95))


def test_coverage_of_quantiles() -> None:
    quantiles = {0.5: np.full(6, 150.0), 0.9: np.full(6, 400.0)}
    got = score("x", PREDICTED, ACTUAL, USER, quantiles=quantiles)
    assert got.coverage == {0.5: pytest.approx(1 / 3), 0.9: pytest.approx(1.0)}
    assert got.figures()["coverage"] == {"p50": pytest.approx(1 / 3), "p90": 1.0}


def test_nothing_to_score_gives_gaps_not_warnings() -> None:
    got = score("x", np.full(2, np.nan), np.array([1.0, np.nan]), np.array([0, 0], np.int32))
    assert got.jobs == 0
    assert got.figures()["mape_percent"] is None
    assert json.loads(json.dumps(got.figures(), allow_nan=False))["users"] == 0
    assert "No job had both" in document([got], target="mean", workload="w", origin="measured", remarks=()).lede


def test_users_without_a_name_belong_to_nobody() -> None:
    assert user_errors(np.array([1.0, 2.0, 4.0]), np.array([-1, 3, 3], np.int32)).tolist() == [3.0]


def test_boxes_end_at_the_last_value_within_one_and_a_half_boxes() -> None:
    box = Box.of(np.array([0.0, 10.0, 11.0, 12.0, 13.0, 14.0, 90.0, np.nan]))
    assert (box.q1, box.median, box.q3) == (10.5, 12.0, 13.5)
    assert (box.low, box.high, box.count) == (10.0, 14.0, 7)
    assert np.isnan(Box.of(np.zeros(0)).median)


def test_options_stand_behind_the_name() -> None:
    part = maker("history-mean:alpha=1:window_s=inf:completions=trace")()
    assert isinstance(part, HistoryMean)
    assert (part.alpha, part.window_s, part.asked) == (1.0, np.inf, "once")
    assert maker("last-job", "max")().target == "max"  # type: ignore[attr-defined]
    assert maker("last-job:target=mean", "max")().target == "mean"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("histroy-mean", "histroy-mean"),
        ("history-mean:beta=2", "'beta'"),
        ("history-mean:2=beta", "'2=beta'"),
        ("no.py:Mine", "no.py"),
        ("history-mean:alpha=1:alpha=2", "twice"),
        ("history-mean:target=foo", "'target'"),
    ],
)
def test_a_wrong_name_is_refused(spec: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        maker(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize("spec", ["history-mean:alpha=x", "history-mean:alpha=nan", "gradient-quantiles:quantiles=3"])
def test_an_option_with_a_wrong_value_is_refused(spec: str) -> None:
    with pytest.raises(PolicyError) as caught:
        maker(spec)()
    assert caught.value.hint


def test_a_part_without_watts_is_refused_with_the_options_that_state_them() -> None:
    jobs = Jobs.build([0.0], [1], [1.0], mean_power_w=[300.0])
    with pytest.raises(PolicyError) as caught:
        evaluate_all(["maximum"], jobs, plain_machine(1), target="mean", clock=lambda: 0.0, tell=print)
    assert caught.value.where == "maximum"
    assert "--node-watts" in str(caught.value.hint)


def test_the_order_of_rows_in_the_file_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    n = 300
    table = {
        "submit_s": np.sort(rng.uniform(0, 1e5, n)),
        "runtime_s": rng.uniform(10, 5e3, n),
        "watts": rng.uniform(300, 900, n),
        "user": rng.integers(0, 5, n),
    }
    machine = plain_machine(1, max_w=2100.0)

    def predictions(order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[float]:
        t = {k: v[order] for k, v in table.items()}
        jobs = Jobs.build(
            t["submit_s"], np.ones(n), t["runtime_s"], user=[f"u{k}" for k in t["user"]], mean_power_w=t["watts"]
        )
        found = replay_estimator(HistoryMean(), jobs, machine, trace_timeline(jobs)).power_w
        return [float(w) for w in found[np.argsort(order)]]

    straight = predictions(np.arange(n))
    assert predictions(rng.permutation(n)) == pytest.approx(straight, rel=1e-12)


def test_watts_are_those_of_the_jobs_own_partition() -> None:
    machine = Machine("m", (Partition("a", 1, max_w=100.0), Partition("b", 1, frequencies_hz=(2e9, 1e9), max_w=300.0)))
    jobs = Jobs.build([0, 0, 0], [1] * 3, [1] * 3, partition=["b", "a", "elsewhere"])
    assert reference_options(jobs, machine).tolist() == [1, 0, 0]
    got = evaluate_all(["maximum"], jobs, machine, target="mean", clock=lambda: 0.0, tell=print)
    assert got[0].predicted_w.tolist() == [300.0, 100.0, 100.0]


def test_watts_of_figure_2_are_shares_at_readings() -> None:
    """Three of four jobs are nearest to 700 W; 711 W is nearer to 720."""
    assert watts_shares(np.array([700.0, 693.0, 709.9, 711.0])) == {700.0: 75.0, 720.0: 25.0}
