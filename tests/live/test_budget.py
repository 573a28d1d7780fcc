"""The pool under a cap, and the cap that the policy gets with it: known answers in watts."""

from __future__ import annotations

import math

import pytest

from wattqueue.live.cluster import Pool
from wattqueue.live.stages.budget import pool_under

IDLE_UW = 300_400_000


@pytest.mark.parametrize(
    ("cap_w", "total", "bare_w", "withheld_w", "policy_w", "pool_w"),
    [
        (1_000.0, 5_000, 0, 0, 300.4 + 699, 699),  # 699.6 above idle, in whole watts
        (1_000.0, 5_000, 100, 50, 300.4 + 549 + 100, 549),
        (1_000.0, 500, 100, 0, 300.4 + 500 + 100, 500),  # the licence holds no more
        (1_000.0, None, 100, 0, 300.4 + 599 + 100, 599),
        (200.0, 500, 0, 0, 300.4, 0),  # below idle watts
        (math.inf, 500, 100, 50, 300.4 + 500 + 100, 500),  # no cap: the licence is one
        (math.inf, None, 100, 50, math.inf, None),
    ],
)
def test_the_cap_of_the_policy_is_what_the_pool_stands_for(
    cap_w: float, total: int | None, bare_w: int, withheld_w: int, policy_w: float, pool_w: int | None
) -> None:
    pool = None if total is None else Pool(total, 0, 0)
    found_w, found_pool = pool_under(cap_w, pool, IDLE_UW, bare_w, withheld_w)
    assert found_w == pytest.approx(policy_w)
    assert found_pool == pool_w
