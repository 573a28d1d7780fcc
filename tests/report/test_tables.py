"""Tables of every page: at no width is a cell cut, the one with the answer least of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.report.chromium import Browser
from wattqueue.report.campaign import METRICS
from wattqueue.report.document import Document, Table
from wattqueue.report.metric_table import label

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel

OUTSIDE = """
[...document.querySelectorAll(".wide")].flatMap((box) => {
  const card = box.getBoundingClientRect(), stack = box.querySelector("table.stack");
  return [...box.querySelectorAll(stack ? "tbody th, tbody td" : "th, td")].filter((cell) => {
    const at = cell.getBoundingClientRect();
    const cut = at.right > Math.min(card.right, innerWidth) + .5 || at.left < Math.max(card.left, 0) - .5;
    const hidden = at.width === 0 && cell.querySelector("span:empty") === null;
    return cut || hidden || cell.scrollWidth > cell.clientWidth + 1;
  }).map((cell) => `${box.getAttribute("aria-label")}: ${cell.textContent}`);
})
"""
SHAPES = """Object.fromEntries([...document.querySelectorAll(".wide")].map((box) =>
  [box.getAttribute("aria-label"), box.querySelector("table").classList.contains("stack")]))"""

MONEY = "-1,234,567.89 EUR"
ROW = "easy+pc-adaptive-0.1, estimator history-quantile"
DESIGN = (
    *(
        "Rate",
        "Users",
        "Work",
        "Added wait node-h",
        "Added run node-h",
        "Delivered",
        "Payment",
        "Penalty",
        "Lower bill",
    ),
    *("Rewards", "Loss of users", "Centre", "Users gain", "Both"),
)
TABLES: dict[str, tuple[Sequence[str], list[tuple[str, ...]], list[str] | None]] = {
    "few": (("Event", "Net"), [("spring-1", MONEY)], ["", "n"]),
    "design": (DESIGN, [("1.25", "83 %", "79 %", "12,345", "9,876", "123.4 MWh", *[MONEY] * 8)] * 3, None),
    "settlement": (
        (*("Event", "From", "To", "Days averaged", "Adjustment", "Delivered kWh", "Committed kWh", "Missing kWh"),
         *("Gaps", "Payment", "Penalty", "Net")),
        [("event-2026-01-17 (test)", *["2026-01-17 08:00:00+01:00"] * 2, "own day", "1.2000", *["123,456.789"] * 3, "0",
          *[MONEY] * 3)],
        None,
    ),
    "campaign": (
        ("machine", "policy", "cap", *map(label, METRICS)),
        [("Marconi100", ROW, "70%", *["\N{GREATER-THAN OR EQUAL TO} 123 h 45 min"] * len(METRICS))] * 4, None,
    ),
    "verdict": (("Configuration", *["Knee", "Lowest safe cap", "Unknown at maximum", "Why"]),
                [(ROW, "612 kW", "700 kW", "none", "an upper bound of 1.2 % of the time is above the risk " * 3)],
                ["", *["wrap"] * 4]),
    "one long word": (("Directory", "Jobs"), [("/scratch/" + "very_long_folder_name_" * 12, "444")], None),
}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = [
        Table(heads, rows, name, kinds=kinds or ["", *["n"] * (len(heads) - 1)])
        for name, (heads, rows, kinds) in TABLES.items()
    ]
    path = tmp_path_factory.mktemp("tables") / "tables.html"
    path.write_text(Document(title="Tables", blocks=tables).html(), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (820, False), (400, True)], ids=str)
def test_no_cell_is_outside_the_window(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.errors() == []
    assert browser.js(OUTSIDE) == []
    assert browser.js("document.documentElement.scrollWidth") <= width
    shapes = browser.js(SHAPES)
    assert shapes.keys() == TABLES.keys()
    assert not shapes["few"], "a table that fits stays one"


def test_a_table_follows_the_width_of_the_window(browser: Browser, page: Path) -> None:
    browser.open(page, width=400)
    assert browser.js(SHAPES)["verdict"]
    browser.screen(1280, 900)
    browser.wait(f"!({SHAPES})['verdict']")
    assert browser.js(OUTSIDE) == []


def test_a_cell_outside_would_be_found(browser: Browser, page: Path) -> None:
    browser.open(page, width=400)
    browser.js("document.querySelectorAll('.wide td').forEach((cell) => { cell.style.minWidth = '60rem'; })")
    assert any(text.startswith("settlement: -1,234,567.89") for text in browser.js(OUTSIDE))
