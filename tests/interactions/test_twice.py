"""A policy object may be used for several runs: no part keeps what it saw in the run before."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interactions.features import FEATURES
from tests.interactions.matrix import draft_of
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run

CALLED = [name for name, feature in FEATURES.items() if feature.group in {"controls", "ledger", "backfill", "order"}]
"""Parts that are called during a run."""


@pytest.mark.parametrize("name", CALLED)
def test_a_second_run_with_the_same_parts_is_the_first_one(name: str) -> None:
    draft = draft_of([FEATURES[name]], 0)
    policy = draft.policy()

    def run(policy: Policy) -> Run:
        simulation = draft.simulation(policy=policy)
        simulation.go()
        return simulation.result()

    first, second = run(policy), run(policy)
    for column in ("state", "start_s", "end_s", "option", "energy_j"):
        np.testing.assert_array_equal(getattr(second.schedule, column), getattr(first.schedule, column), column)
    assert second.notes == first.notes
