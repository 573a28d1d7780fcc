"""Tables as lines of text."""

from __future__ import annotations

from wattqueue.report.document import aligned, without_gaps


def test_columns_line_up() -> None:
    lines = aligned(("name", "n", ""), [("a", "1,000", "x"), ("long name", "2", "")])
    assert lines == ["name           n", "a          1,000  x", "long name      2"]


def test_columns_of_gaps_are_left_out() -> None:
    assert without_gaps(("a", "b", "c"), [("1", "–", "–"), ("2", "–", "3")]) == (["a", "c"], [["1", "–"], ["2", "3"]])
