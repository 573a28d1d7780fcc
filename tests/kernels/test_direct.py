"""Kernels that are called past numba's dispatcher: one signature for every world, and the dispatcher's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.policy.test_decide import by_snapshot
from tests.sim.test_against_twin import random_script, run_both
from tests.sim.workloads import random_world
from wattqueue.kernels import actions, lists, loop, schedule
from wattqueue.kernels._jit import direct
from wattqueue.kernels.state import Array


def direct_kernels() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (actions, lists, loop, schedule):
        yield from ((name, value) for name, value in vars(module).items() if hasattr(value, "dispatcher"))


@direct
def third(column: Array, more: int) -> int:
    return int(column[2]) + more


@pytest.mark.compiled
def test_the_types_of_a_kernel_called_directly_never_change() -> None:
    for seed in range(30):
        world = random_world(seed, failures=seed % 2 == 0)
        run_both(world, random_script(seed, world), period_s=7.0)
        by_snapshot(world)
    # What was called directly since was never typed again: go through the dispatcher once more, in other worlds.
    seen = {name: kernel.dispatcher.signatures for name, kernel in direct_kernels()}  # type: ignore[attr-defined]
    assert len(seen["run"]) == len(seen["set_frequency"]) == len(seen["schedule_once"]) == 1
    for seed in range(30, 50):
        simulation = random_world(seed).simulation()
        loop.run.dispatcher(simulation.view, simulation.truth, simulation.log, simulation.history)  # type: ignore[attr-defined]
    assert len(loop.run.dispatcher.signatures) == 1  # type: ignore[attr-defined]


def test_a_direct_call_answers_as_the_first_one() -> None:
    column = np.arange(5, dtype=np.int64)
    assert [third(column + k, 1) for k in range(4)] == [3, 4, 5, 6]
    assert third(column, 40) == 42
