"""Features that meet: the interaction matrix of ``docs/interactions.md`` is what small worlds give."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.interactions.features import FEATURES
from tests.interactions.matrix import BROKEN, HELD, REFUSED, UNMET, Cell, cell
from tests.interactions.oracles import ORACLES, QUICK
from tests.interactions.page import (
    BROKEN_MARK,
    CHOICE_MARK,
    HELD_MARK,
    PAGE,
    TRIPLES,
    columns,
    grid_of,
    held_pairs,
    legend,
    pair_cells,
    triple_line,
    triples,
)
from tests.profiles import sampled

TEXT = PAGE.read_text(encoding="utf-8")
GRID = grid_of(TEXT)
CHUNKS = 10
EACH = 3
"""The fast tests look at one pair of so many; the triples that they look at hold a quarter of all pairs, too."""


def as_stated(found: Cell, mark: str) -> bool:
    """Whether the page says of a cell what came of it."""
    if found.outcome == HELD:
        return mark == HELD_MARK
    if found.outcome in (BROKEN, UNMET):
        return mark == BROKEN_MARK
    if found.reason.startswith("both choose"):
        return mark == CHOICE_MARK
    return legend(TEXT).get(mark) == f"{found.outcome}: {found.reason}"


@pytest.mark.compiled
@pytest.mark.parametrize("name", FEATURES)
def test_pairs_are_what_the_page_says(name: str) -> None:
    expect_row(name, QUICK, EACH)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", FEATURES)
def test_pairs_decided_from_snapshots_are_what_the_page_says(name: str) -> None:
    expect_row(name, tuple(ORACLES))


def expect_row(name: str, oracles: Sequence[str], each: int = 1) -> None:
    assert len(GRID[name]) == len(columns(name))
    marks = [GRID[name][column] for column in columns(name, each)]
    pairs = zip(pair_cells(name, oracles, each), marks, strict=True)
    wrong = [f"{c.names}: {c.outcome}, {c.reason}" for c, mark in pairs if not as_stated(c, mark)]
    assert not wrong, "renew the page, if this is meant: python -m tests.interactions.page"


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", sampled(range(CHUNKS), range(0, CHUNKS, 2)))
def test_drawn_triples_are_what_the_page_says(chunk: int) -> None:
    drawn = triples(held_pairs(GRID))
    assert len(drawn) == TRIPLES
    for names in drawn[chunk::CHUNKS]:
        found = cell(names, QUICK)
        assert found.outcome != BROKEN, found
        assert (found.outcome == HELD) != (triple_line(found) in TEXT), found


def test_no_pair_stays_unexplained() -> None:
    """What never acts together has a stated reason; what is refused is refused by a message of its own."""
    for letter, reason in legend(TEXT).items():
        assert letter.islower() == reason.startswith(REFUSED)
        assert "never acted" not in reason


def test_a_few_pairs_with_kernels_as_plain_python_too() -> None:
    for names in (
        ("ledger measured", "nodes fail"),
        ("control suspends", "partitions"),
        ("cap that moves", "backfill easy"),
    ):
        assert cell(names).outcome == HELD
