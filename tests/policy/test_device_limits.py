"""Device limits after an action, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wattqueue.parts.actions import SetDeviceLimits
from wattqueue.policy.actions import NO_OPTION
from wattqueue.policy.consented import limits_effect
from wattqueue.policy.device_limits import BELOW_RANGE, OUT_OF_REACH, DeviceLimits

# The first two can be set, the last cannot.
LIMITS = DeviceLimits(
    np.array([80.0, 90.0, 70.0]), np.array([50.0, 60.0, 70.0]), np.array([100.0, 100.0, 70.0]), *np.full((3, 3), np.nan)
)


@pytest.mark.parametrize(
    ("devices", "caps_w", "new"),
    [
        ((0,), (60.0,), {0: 60.0}),
        ((1, 0), (65.0, 50.0), {1: 65.0, 0: 50.0}),
        ((0,), (np.inf,), {0: 100.0}),  # no limit is the highest that can be set
        ((0, 2), (60.0, np.inf), {0: 60.0}),  # and of a device that cannot be set, nothing new
        ((2,), (70.0,), {}),
        ((), (), {}),
    ],
)
def test_limits_that_are_set(devices: tuple[int, ...], caps_w: tuple[float, ...], new: dict[int, float]) -> None:
    after, changed, refused = LIMITS.with_caps(SetDeviceLimits(np.array(devices, np.int64), np.array(caps_w)))
    assert (changed, refused) == (new, "")
    assert after.cap_w.tolist() == [new.get(k, LIMITS.cap_w[k]) for k in range(3)]


@pytest.mark.parametrize(
    ("devices", "caps_w"),
    [
        ((0.0,), (60.0,)),
        ((True,), (60.0,)),
        ((0, 1), (60.0,)),
        ((0,), (60.0, 70.0)),
        ((), ()),
        ((-1,), (60.0,)),
        ((3,), (60.0,)),
    ],
)
def test_limits_that_a_driver_refuses_have_no_effect(devices: tuple[Any, ...], caps_w: tuple[float, ...]) -> None:
    view: Any = SimpleNamespace(machine=SimpleNamespace(devices=3))
    assert limits_effect(view, SetDeviceLimits(devices, caps_w), LIMITS.cap_w) is None


@pytest.mark.parametrize(
    ("devices", "caps_w", "reason"),
    [
        ((-1,), (60.0,), NO_OPTION),
        ((3,), (60.0,), NO_OPTION),
        ((0,), (-1.0,), NO_OPTION),
        ((0,), (np.nan,), NO_OPTION),
        ((0, 2), (60.0, 60.0), OUT_OF_REACH),
        ((0, 1), (60.0, 59.0), BELOW_RANGE),
    ],
)
def test_limits_that_are_refused_change_nothing(
    devices: tuple[int, ...], caps_w: tuple[float, ...], reason: str
) -> None:
    assert LIMITS.with_caps(SetDeviceLimits(np.array(devices), np.array(caps_w))) == (LIMITS, {}, reason)
