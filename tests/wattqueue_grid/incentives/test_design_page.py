"""The page of a design in a headless Chromium: who gains at which rate, and the answer on a telephone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.report.chromium import Browser
from tests.wattqueue_grid.incentives.test_design_and_offer import EUR, INPUTS
from wattqueue_grid.incentives.design import DesignRow
from wattqueue_grid.incentives.design_report import document, gains

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel


def rows() -> list[DesignRow]:
    """Four rates with 20 draws each, and one without figures."""
    rng = np.random.default_rng(1)
    found = []
    for multiple, centre, users in (("0", 30, -12), ("1", 22, 4), ("2", 6, 17), ("4", -31, 60)):
        draws = rng.normal([centre, users], [2.0, 1.0], (20, 2)) * EUR
        by_draw = tuple((round(a), round(b)) for a, b in draws.tolist())
        found.append(
            DesignRow(Decimal(multiple), 0.5, 0.5, 0.0, 0.0, 0.0, centre * EUR, 0, 0, 0, -users * EUR, by_draw)
        )
    return [*found, DesignRow(Decimal(8), 0.9, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, (), "jobs were left")]


def test_the_figure_holds_the_gains_of_both_sides_with_their_intervals() -> None:
    columns = gains(rows(), INPUTS).columns
    assert columns["rate"].tolist() == [0.0, 1.0, 2.0, 4.0]
    assert columns["value_2"] == pytest.approx(columns["value_0"] + columns["value_1"])
    for k in range(3):
        assert (columns[f"low_{k}"] < columns[f"value_{k}"]).all()
        assert (columns[f"value_{k}"] < columns[f"high_{k}"]).all()
    assert columns["value_0"][3] < 0 < columns["value_1"][3]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_gains_are_drawn_and_a_telephone_shows_the_sum_of_each_rate(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    page = tmp_path / "design.html"
    page.write_text(document(rows(), INPUTS).html(), encoding="utf-8")
    browser.open(page, width=width, dark=dark)
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
    assert browser.js("wattqueue.charts.gains.chart.getOption().series.map((s) => s.data.length)") == [
        2,
        *[1] * 3,
        *[4] * 3,
    ]
    keys = browser.js("document.querySelector('#fig-gains .key').innerText")
    assert [name in keys for name in ("centre", "users", "both", "no event")] == [True] * 4
    assert browser.js("document.documentElement.scrollWidth") <= width
    if width == 400:
        cells = "(row) => [...row.cells].filter((e) => e.checkVisibility()).length"
        shown = f"[...document.querySelectorAll('#table tbody tr')].map({cells})"
        assert browser.js(shown) == [2] * 6
        answer = "document.querySelector('#table tbody tr:nth-child(3) td.answer')"
        assert browser.js(f"{answer}.dataset.label") == "Both"
        assert browser.js(f"{answer}.innerText") == "26.00\u00a0EUR"
