"""Free units as bits against a set of numbers: the lowest first, whatever was taken and given before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import bit_tricks, compare, free_now, give, restore, take, withhold, words
from tests.kernels.views import view_with
from tests.reference import placement as twin
from wattqueue.kernels import codes, state

JOBS = 40


def units_held(view: state.KernelView, job: int) -> list[int]:
    first = int(view.held.first[job])
    units: list[int] = []
    for k in range(first, first + int(view.held.pieces[job])):
        units += range(int(view.held.low[k]), int(view.held.high[k]) + 1)
    return units


def expect_same_units(view: state.KernelView, free: twin.FreeUnits) -> None:
    for p in range(len(free.counts)):
        assert view.units.free[p] == len(free.of_partition(p))
    assert all(free_now(view.units, u) == free.unit_is_free(u) for u in range(sum(free.counts)))


@given(st.integers(0, 2**32 - 1))
def test_bits_are_a_set_of_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [int(c) for c in rng.choice([1, 5, 63, 64, 65, 128, 200], int(rng.integers(1, 4)))]
    nodes = rng.integers(1, 90, JOBS)
    view = view_with(nodes, np.ones(JOBS), np.ones(JOBS), counts, codes.EASY)
    free, held, withheld = twin.FreeUnits(counts), dict[int, tuple[int, list[int]]](), set[int]()
    for job in range(JOBS):
        p, chance = int(rng.integers(len(counts))), rng.random()
        if chance < 0.6 and nodes[job] <= len(free.of_partition(p)):
            take(view, p, job)
            held[job] = p, free.take_units(p, int(nodes[job]))
            assert units_held(view, job) == held[job][1]
        elif chance < 0.8 and held:
            old = int(rng.choice(list(held)))
            p, units = held.pop(old)
            give(view, p, old)
            free.give_units(units)
        elif chance < 0.9 and free.of_partition(p):
            unit = int(rng.choice(free.of_partition(p)))
            withhold(view.units, unit)
            free.withhold_unit(unit)
            withheld.add(unit)
        elif withheld:
            unit = withheld.pop()
            restore(view.units, unit)
            free.restore_unit(unit)
    expect_same_units(view, free)


@given(st.lists(st.tuples(st.integers(1, 2**64 - 1), st.integers(0, 63), st.integers(0, 64)), min_size=1))
def test_bit_tricks(cases: list[tuple[int, int, int]]) -> None:
    cases += [(1 << k, k, 64 - k) for k in range(64)] + [((1 << 64) - 1, k, 64 - k) for k in range(64)]
    cases = [(word, bit, min(length, 64 - bit)) for word, bit, length in cases]
    out = np.zeros((len(cases), 3), np.uint64)
    bits, lengths = (np.array([case[k] for case in cases], np.int64) for k in (1, 2))
    bit_tricks(words([word for word, _, _ in cases]), bits, lengths, out)
    for (word, bit, length), got in zip(cases, out.tolist(), strict=True):
        assert got == [twin.lowest_bit(word), twin.run_length(word, bit), twin.mask(bit, length)]


@given(st.integers(0, 2**32 - 1))
def test_which_numbers_are_at_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    column = rng.integers(-3, 4, (3, 80))
    column[1, 5:9] = np.iinfo(np.int64).min, np.iinfo(np.int64).max, 1 << 61, -(1 << 61)
    at, least = int(rng.integers(0, 3 * 80 - 64)), int(rng.choice([-3, 0, 2, 4, 1 << 61]))
    bits = compare(column, at, least)
    assert [bits >> k & 1 for k in range(64)] == [int(x >= least) for x in column.ravel()[at : at + 64].tolist()]
