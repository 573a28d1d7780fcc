"""Names of points in a headless Chromium: none lies over another, over a point or beyond the chart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.report.chromium import Browser
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.document import Document, Figures
from wattqueue.report.figures import pareto

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel

# Boxes of the names in a chart (its words in ink), as [text, left, top, right, bottom].
NAMES = """
(() => wattqueue.charts.pareto.chart.getZr().storage.getDisplayList(true).flatMap((shape) => {
  if (shape.type !== "tspan" || shape.ignore || shape.invisible || shape.style.fill !== colours.ink) return [];
  const box = shape.getBoundingRect().clone(), to = shape.getComputedTransform();
  if (to) box.applyTransform(to);
  return [[shape.style.text, box.x, box.y, box.x + box.width, box.y + box.height]];
}))()
"""
POINTS = """
(() => { const { figure, chart } = wattqueue.charts.pareto, c = figure.columns;
  const at = (i) => [c.turnaround_s[i] / figure.x.scale, c.machine_energy_j[i] / figure.y.scale];
  return c.group.map((_, i) => chart.convertToPixel({ gridIndex: 0 }, at(i))) })()
"""


def crowded(path: Path, count: int) -> list[str]:
    """A page with two groups of points close to each other, and one alone."""
    rng = np.random.default_rng(4)
    near, far = rng.normal(3_000.0, 90.0, count), rng.normal(9_000.0, 60.0, count)
    turnaround = [*near, *far, 6_000.0]
    energy = [*rng.normal(9.0e9, 4e7, count), *rng.normal(8.0e9, 3e7, count), 8.5e9]
    labels = [f"policy-{k}, cap {10 * k}%" for k in range(2 * count + 1)]
    found = [[Estimate(1, v) for v in values] for values in (turnaround, energy)]
    drawn = [(pareto.figure(labels, *found), "pareto")]
    path.write_text(Document(title="Points", blocks=[Figures(drawn)]).html(), encoding="utf-8")
    return labels


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("count", [2, 6])
def test_names_of_points_do_not_overlap(browser: Browser, tmp_path: Path, width: int, count: int) -> None:
    labels = crowded(tmp_path / "points.html", count)
    browser.open(tmp_path / "points.html", width=width)
    assert browser.errors() == []
    names = browser.js(NAMES)
    boxes = np.array([box for _, *box in names])
    across = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    over = np.argwhere(np.triu((across > 1.0).all(axis=2), 1))
    assert [(names[i][0], names[j][0]) for i, j in over] == []
    points = np.array(browser.js(POINTS))
    inside = (points[:, None] > boxes[None, :, :2]) & (points[:, None] < boxes[None, :, 2:])
    assert not inside.all(axis=2).any()
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2] <= browser.js("wattqueue.charts.pareto.chart.getWidth()")).all()
    # On a wide screen every point is named; on a telephone those for which there is room, and any by its tooltip.
    shown = [name for name, *_ in names]
    assert sorted(shown) == sorted(labels) if width == 1280 else len(shown) >= 5
