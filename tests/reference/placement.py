"""Free units as a set of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class FreeUnits:
    """Partitions of ``counts`` units, numbered over the whole machine; every unit free at first."""

    counts: Sequence[int]

    def __post_init__(self) -> None:
        self.free = set(range(sum(self.counts)))

    def unit_partition(self, unit: int) -> int:
        return next(p for p, end in enumerate(itertools.accumulate(self.counts)) if unit < end)

    def of_partition(self, p: int) -> list[int]:
        return sorted(u for u in self.free if self.unit_partition(u) == p)

    def take_units(self, p: int, count: int) -> list[int]:
        """The lowest free numbers."""
        units = self.of_partition(p)[:count]
        self.free -= set(units)
        return units

    def give_units(self, units: Sequence[int]) -> None:
        self.free |= set(units)

    def unit_is_free(self, unit: int) -> bool:
        return unit in self.free

    def withhold_unit(self, unit: int) -> None:
        self.free.remove(unit)

    def restore_unit(self, unit: int) -> None:
        self.free.add(unit)


def lowest_bit(word: int) -> int:
    """Count up from 0 until a bit is set."""
    return next(k for k in range(64) if word >> k & 1)


def run_length(word: int, bit: int) -> int:
    """Bits set from ``bit`` on, without a gap."""
    return next((k for k in range(64 - bit) if not word >> (bit + k) & 1), 64 - bit)


def mask(bit: int, length: int) -> int:
    """``length`` bits from ``bit`` on."""
    return sum(1 << k for k in range(bit, bit + length))
