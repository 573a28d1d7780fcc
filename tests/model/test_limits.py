"""Figures beyond the limits of ``model.bounds`` never get into a table: each is refused with its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError, MachineError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap, Series

JOB: dict[str, Any] = {"submit_s": [0.0, 1.0], "nodes": [1, 1], "runtime_s": [10.0, 10.0]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 2**31 - 1},
        {"nodes": 2**20, "sockets_per_node": 2, "cores_per_socket": 64, "unit": "core"},
        {"idle_w": 1e12, "max_w": 1e12},
        {"max_w": 1e12},
        {"max_w": np.nan},
        {"idle_w": np.nan},
        {"boot_w": 1e12},
        {"shutdown_w": np.inf},
        {"off_w": 1e300},
        {"boot_s": 1e300},
        {"shutdown_s": 1e300},
        {"shutdown_s": np.nan},
        {"dvfs_alpha": 1e300},
        {"dvfs_alpha": -1.0},
        {"dvfs_beta": np.inf},
        {"frequencies_hz": (2.4, 1.2)},
        {"frequencies_hz": (np.inf, 1e9)},
        {"frequencies_hz": (np.nan,)},
        {"memory_gb": np.nan},
        {"memory_gb": 0.0},
    ],
)
def test_a_partition_within_limits(wrong: dict[str, Any]) -> None:
    """Every figure of a partition; NaN is none of them."""
    with pytest.raises(MachineError) as caught:
        Partition(**{"name": "batch", "nodes": 4, "max_w": 300.0, **wrong})
    assert str(caught.value.where) == "partition batch"
    assert caught.value.hint


def test_a_machine_within_limits() -> None:
    """Partitions that are allowed one by one can be too many together."""
    many = tuple(Partition(f"p{i}", 2**22) for i in range(5))
    for partitions, cap_w in ((many, None), (many[:1], 1e300), (many[:1], np.nan), (many[:1], -1.0)):
        with pytest.raises(MachineError) as caught:
            Machine("big", partitions, cap_w=cap_w)
        assert caught.value.where == "big"
        assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("submit_s", 1e18),
        ("submit_s", 1e300),
        ("submit_s", -1e18),
        ("submit_s", np.nan),
        ("nodes", 2**31 - 1),
        ("runtime_s", 1e300),
        ("runtime_s", 1e-12),
        ("walltime_s", 1e12),
        ("mean_power_w", 1e12),
        ("mean_power_w", np.inf),
        ("max_power_w", 1e12),
        ("start_s", 1e300),
        ("start_s", np.inf),
    ],
)
def test_jobs_within_limits(name: str, value: float) -> None:
    """Every numeric column, with the row that is outside."""
    columns = {"walltime_s": [20.0, 20.0], **JOB, name: [JOB.get(name, [1.0])[0], value]}
    with pytest.raises(InputError) as caught:
        Jobs.build(**columns)
    assert str(caught.value.where) == f"column {name}, row 2"
    assert caught.value.hint


def test_a_node_count_that_no_integer_of_32_bits_holds() -> None:
    """It must not wrap to a small or negative one before it is checked."""
    with pytest.raises(InputError) as caught:
        Jobs.build([0.0], [2**32 + 1], [10.0])
    assert caught.value.where == "column nodes, row 1"


def test_signals_within_limits() -> None:
    """A cap may be infinite, and begin at minus infinity; nothing else may."""
    assert Cap.none().cap_w[0] == np.inf
    for time, watts in (([0.0], [1e300]), ([0.0, 1e300], [1.0, 2.0]), ([1e300], [1.0]), ([np.nan], [1.0])):
        with pytest.raises(InputError) as caught:
            Cap(np.array(time), np.array(watts))
        assert str(caught.value.where).startswith("cap")
    for time, value in (([0.0], [1e300]), ([-1e300], [1.0]), ([0.0], [-1e10])):
        with pytest.raises(InputError) as caught:
            Series(np.array(time), np.array(value))
        assert str(caught.value.where).startswith("series")


def test_ends_and_profiles_within_limits() -> None:
    """Ends of a past, samples of a profile."""
    with pytest.raises(InputError) as caught:
        Past(Jobs.build([0.0], [1], [10.0]), np.array([1e300]))
    assert str(caught.value.where).startswith("past")
    with pytest.raises(InputError) as caught:
        PowerProfiles.from_samples([[1e12]])
    assert str(caught.value.where) == "power profiles"
