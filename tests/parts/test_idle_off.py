"""Switching idle nodes off and on where two partitions wait: neither undoes what the other one needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.actions import WakeNode
from wattqueue.parts.controls.idle_off import IdleOff

MACHINE = Machine(
    "two", (Partition("a", 1, idle_w=100.0, max_w=300.0, off_w=5.0), Partition("b", 1, idle_w=100.0, max_w=300.0))
)
BOOT_W = 100.0


@pytest.mark.parametrize(("available_w", "woken"), [(80.0 + BOOT_W - 1.0, []), (80.0 + BOOT_W, [WakeNode(1)])])
def test_a_node_is_not_woken_with_the_watts_of_a_job_before(available_w: float, woken: list[WakeNode]) -> None:
    """The first job fits on partition a, for which the node of b was switched off; the second one wants that node.

    It was woken at once, and switched off again: at one instant, where nodes boot in no time.
    """
    view: Any = SimpleNamespace(
        machine=MACHINE, available_w=available_w, heads=np.array([0, 1]), free=np.array([1, 0]),
        jobs=SimpleNamespace(nodes=np.array([1, 1])), entry_job=int, entry_partition=int, entry_options=lambda _: [0],
        net_watts=lambda *_: 80.0, units_off=np.array([1]), units_booting=np.zeros(0, np.int64),
    )  # fmt: skip
    assert IdleOff().act(view) == woken
