"""Frequency parts in a list: the first gives a window, each later one narrows it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency_in_turn import FrequencyInTurn

CLOCKS = (3.0e9, 2.5e9, 2.0e9, 1.5e9, 1.0e9)
MACHINE = Machine("one", (Partition("p", 4, frequencies_hz=CLOCKS, max_w=100.0),))
OPTIONS = len(CLOCKS)


class Window:
    """A part that gives each entry a window of its own."""

    def __init__(self, windows: list[tuple[int, int]]) -> None:
        self.windows = windows

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        first, last = (np.array(side, np.int32) for side in zip(*self.windows, strict=True))
        return first, last


def a_window() -> st.SearchStrategy[tuple[int, int]]:
    pair = st.tuples(st.integers(0, OPTIONS - 1), st.integers(0, OPTIONS - 1))
    return pair.map(lambda ends: (min(ends), max(ends)))


def in_words(windows: list[tuple[int, int]]) -> tuple[set[int], bool]:
    """The rule, option by option: what is common to all, or of the window before the option nearest to the next."""
    kept, empty = set(range(windows[0][0], windows[0][1] + 1)), False
    for first, last in windows[1:]:
        common = kept & set(range(first, last + 1))
        if not common:
            empty = True
            common = {min(kept, key=lambda option: min(abs(option - first), abs(option - last)))}
        kept = common
    return kept, empty


@given(
    st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(a_window(), min_size=n, max_size=n), min_size=2, max_size=4))
)
def test_each_later_part_narrows_to_what_is_common_or_nearest(parts: list[list[tuple[int, int]]]) -> None:
    n = len(parts[0])
    jobs = KnownJobs.of(Jobs.build(submit_s=np.zeros(n), runtime_s=np.ones(n), nodes=np.ones(n, np.int32)))
    entries = Entries(np.arange(n, dtype=np.int32), np.zeros(n, np.int32), np.zeros(n))
    told = jobs, entries, Prediction(np.ones((1, OPTIONS)), np.ones((1, OPTIONS))), MACHINE, Signals(Cap.none())
    found = FrequencyInTurn([Window(each) for each in parts]).narrowed(*told)
    for k in range(n):
        kept, empty = in_words([each[k] for each in parts])
        assert set(range(found.first[k], found.last[k] + 1)) == kept
        assert bool(found.empty[k]) == empty
