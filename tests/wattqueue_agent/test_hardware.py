"""Limits are whole microwatts: shares of a sum, written and read back, stay within it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wattqueue_agent.powercap_tree import PowercapTree
from wattqueue_agent.hardware import rapl_limits


@pytest.mark.parametrize("shares", [3, 6, 7, 12])
def test_shares_of_a_sum_stay_within_it(tmp_path: Path, shares: int) -> None:
    PowercapTree(tmp_path, [100.0] * shares)
    for one in rapl_limits(tmp_path):
        one.write(500.0 / shares)
    written_uw = [int(one.path.read_text()) for one in rapl_limits(tmp_path)]
    assert 500_000_000 - shares <= sum(written_uw) <= 500_000_000


@pytest.mark.parametrize("watts", [0.7, 75.1, 85.3, 110.123456, 250.0])
def test_whole_microwatts_are_written_as_they_are(tmp_path: Path, watts: float) -> None:
    PowercapTree(tmp_path, [100.0])
    (one,) = rapl_limits(tmp_path)
    one.write(watts)
    assert one.read() == watts
