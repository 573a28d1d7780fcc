"""Redistribution of caps against its definition in exact fractions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import redistribution as twin
from wattqueue.kernels.redistribution import water_level
from wattqueue.parts.controls.rapl_redistribution import redistribute

WANTS = st.lists(st.integers(0, 10**11) | st.integers(0, 5), max_size=20)
SOCKET = st.tuples(st.floats(0, 150), st.floats(30, 120))
RATES = st.builds(twin.Rates, st.floats(0.5, 0.9), st.floats(0.9, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 2.0))
LIMITS = st.builds(twin.Limits, st.floats(0, 30), st.floats(120, 200) | st.just(np.inf))


@given(wants=WANTS, pool=st.integers(0, 10**12))
def test_the_level_is_the_highest_that_the_pool_covers(wants: list[int], pool: int) -> None:
    found = water_level(np.array(wants, np.int64), pool)
    assert found == twin.water_level(wants, pool)
    assert sum(min(w, found) for w in wants) <= pool


@given(sockets=st.lists(SOCKET, max_size=12), rates=RATES, limits=LIMITS, spare=st.floats(0, 500))
def test_every_cap_equals_the_definition(
    sockets: list[tuple[float, float]], rates: twin.Rates, limits: twin.Limits, spare: float
) -> None:
    power, cap = np.array([p for p, _ in sockets]), np.array([c for _, c in sockets])
    want = twin.redistribute(power.tolist(), cap.tolist(), rates, limits, spare)
    found = redistribute(
        power,
        cap,
        lower=rates.lower,
        upper=rates.upper,
        decrease=rates.decrease,
        increase=rates.increase,
        minimum_w=limits.minimum_w,
        maximum_w=limits.maximum_w,
        spare_w=spare,
    )
    # Floats round what is taken to the microwatt below or above, which also moves the level.
    np.testing.assert_allclose(found, [float(w) for w in want], rtol=0, atol=3e-6 * (len(sockets) + 1))
