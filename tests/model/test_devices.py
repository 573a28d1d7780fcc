"""Units, devices and nodes of a machine."""

from __future__ import annotations

import numpy as np

from wattqueue.model.machine import Machine, Partition

MIXED = Machine(
    "mixed",
    (
        Partition("cores", 2, unit="core", sockets_per_node=2, cores_per_socket=3),
        Partition("sockets", 2, unit="socket", sockets_per_node=2, cores_per_socket=16),
        Partition("nodes", 2, sockets_per_node=2, cores_per_socket=16),
    ),
)


def test_cores_share_the_device_of_their_socket() -> None:
    assert (MIXED.units, MIXED.devices, MIXED.nodes) == (12 + 4 + 2, 4 + 4 + 2, 6)
    np.testing.assert_array_equal(MIXED.device_of_unit, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9])
    np.testing.assert_array_equal(MIXED.device_start, [0, 3, 6, 9, 12, 13, 14, 15, 16, 17, 18])


def test_a_node_has_all_units_of_its_sockets() -> None:
    np.testing.assert_array_equal(MIXED.node_of_unit, [0] * 6 + [1] * 6 + [2, 2, 3, 3, 4, 5])
    np.testing.assert_array_equal(MIXED.node_start, [0, 6, 12, 14, 16, 17, 18])


def test_every_node_of_one_unit_is_a_device() -> None:
    plain = Machine("plain", (Partition("batch", 4),))
    for found in (plain.device_of_unit, plain.node_of_unit):
        np.testing.assert_array_equal(found, np.arange(4))
