"""A heap whose items can be taken out from anywhere, as a list that is sorted again for every question."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SortedList:
    """(time, id) pairs."""

    items: list[tuple[float, int]] = field(default_factory=list)

    def heap_push(self, time: float, item: int) -> None:
        self.items.append((time, item))

    def heap_remove(self, item: int) -> None:
        self.items = [pair for pair in self.items if pair[1] != item]

    def first(self) -> tuple[float, int]:
        return min(self.items)
