"""Conformal correction against its definition, and what it is for: coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import conformal as twin
from wattqueue.kernels.conformal import (
    ConformityScores,
    ReplayOrder,
    conformal_correct_rows,
    conformal_learn_rows,
    conformal_replay,
)

QUANTILES = (0.5, 0.9, 0.99)


def new_scores(users: int, own: int, everybody: int, fewest: int = 1) -> ConformityScores:
    start = np.append(np.arange(users + 1) * own, users * own + everybody).astype(np.int64)
    room = (int(start[-1]), len(QUANTILES))
    seen = np.zeros(users + 1, np.int64)
    return ConformityScores(np.array(QUANTILES), np.array([fewest]), start, seen, np.zeros(room), np.zeros(room))


@given(
    jobs=st.lists(st.tuples(st.integers(-1, 2), st.integers(1, 40)), max_size=60),
    own=st.integers(1, 12),
    everybody=st.integers(1, 30),
    fewest=st.integers(1, 5),
)
def test_every_shift_equals_the_definition(jobs: list[tuple[int, int]], own: int, everybody: int, fewest: int) -> None:
    scores = new_scores(3, own, everybody, fewest)
    history: dict[int, list[float]] = {k: [] for k in (-1, 0, 1, 2, 3)}
    for user, watts in jobs:
        raw = np.full((1, 3), 1_000.0)
        out = np.empty((1, 3))
        conformal_correct_rows(scores, np.array([user]), raw, out)
        mine = history[user] if user >= 0 and len(history[user][-own:]) >= fewest else []
        want = [1_000.0 + twin.conformal_shift(mine, history[3], q, own, everybody) for q in QUANTILES]
        np.testing.assert_allclose(out[0], np.maximum.accumulate(want), rtol=1e-12)
        conformal_learn_rows(scores, np.array([user]), raw, np.array([float(watts)]))
        history[user].append(watts - 1_000.0)
        history[3].append(watts - 1_000.0)


def test_a_user_whose_predictions_miss_gets_quantiles_that_hold() -> None:
    """Raw quantiles are all 500 W; user 0 draws about 500 W, user 1 about 900 W with three times the spread."""
    n = 4_000
    rng = np.random.default_rng(2)
    user = rng.integers(0, 2, n)
    watts = np.where(user == 0, rng.normal(500.0, 20.0, n), rng.normal(900.0, 60.0, n))
    raw, out = np.full((n, 3), 500.0), np.empty((n, 3))
    rows = np.arange(n)
    time = np.arange(n, dtype=np.float64)
    scores = new_scores(2, 128, 512)
    conformal_replay(scores, ReplayOrder(rows, rows, time, time + 0.5, user, watts), raw, out)
    for who in (0, 1):
        late = (user == who) & (rows > 1_000)
        covered = [float((watts[late] <= out[late, q]).mean()) for q in range(3)]
        assert covered == pytest.approx(QUANTILES, abs=0.03)


def test_what_is_no_measurement_teaches_nothing() -> None:
    scores = new_scores(1, 4, 4)
    raw = np.full((3, 3), 500.0)
    raw[2] = np.nan
    conformal_learn_rows(scores, np.array([0, 0, 0]), raw, np.array([0.0, np.nan, 400.0]))
    assert scores.seen.tolist() == [0, 0]
    out = np.empty((1, 3))
    conformal_correct_rows(scores, np.array([0]), np.full((1, 3), np.nan), out)
    assert np.isnan(out).all()


def test_a_correction_never_goes_below_zero_watts() -> None:
    scores = new_scores(1, 4, 4)
    conformal_learn_rows(scores, np.array([0]), np.full((1, 3), 500.0), np.array([10.0]))
    out = np.empty((1, 3))
    conformal_correct_rows(scores, np.array([0]), np.full((1, 3), 100.0), out)
    assert out.tolist() == [[0.0, 0.0, 0.0]]
