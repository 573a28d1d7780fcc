"""Does the bound hold? Many generated fortnights, each judged alone, against all of them together."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.policy.policy import load_policy
from wattqueue.whatif.analysis import evidence_of
from wattqueue.whatif.run import run_cap

MACHINE = plain_machine(24, 90.0, 350.0)


def fortnight(seed: int, n: int = 3_000) -> Jobs:
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 12, n)
    return Jobs.build(
        np.cumsum(rng.exponential(430.0, n)).round(),
        rng.choice([1, 1, 2, 4], n),
        rng.lognormal(7.5, 1.0, n).round() + 1.0,
        walltime_s=np.full(n, 86_400.0),
        user=[f"u{u}" for u in user],
        mean_power_w=(180.0 + 10.0 * user + rng.normal(0.0, 8.0, n)).round(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.6, 0.7])
def test_the_bound_is_below_the_truth_in_at_most_one_of_twenty(share: float) -> None:
    cap_w = share * 24 * 350.0
    found = []
    for seed in range(80):
        policy = load_policy("easy", estimator="history-max")
        found.append(evidence_of(run_cap(fortnight(seed), MACHINE, policy, cap_w), 0.0))
    truth = sum(e.over_s for e in found) / sum(e.span_s for e in found)
    assert truth > 0
    assert np.mean([e.upper < truth for e in found]) <= 0.05
