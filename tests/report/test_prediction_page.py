"""The report of an evaluation in a headless Chromium."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.report.chromium import Browser
from tests.report.test_browser import CUT
from wattqueue.evaluation.page import document
from wattqueue.evaluation.scores import score

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel

SEEN = """
(() => Object.values(wattqueue.charts).map(({figure, chart}) => {
  const option = chart.getOption();
  return [figure.kind, option.yAxis[0].data, option.series.map((s) => s.data.length)];
}))()
"""

OVERLAPPING = """
(() => {
  const found = [];
  for (const {chart} of Object.values(wattqueue.charts)) {
    const shown = chart.getZr().storage.getDisplayList(true);
    const texts = shown.filter((t) => t.type === "tspan" && t.style.text && !t.ignore);
    const boxes = texts.map((t) => {
      const box = t.getBoundingRect().clone(), to = t.getComputedTransform();
      if (to) box.applyTransform(to);
      return box;
    });
    for (let i = 0; i < boxes.length; i++)
      for (let k = 0; k < i; k++)
        if (boxes[i].intersect(boxes[k])) found.push(`${texts[k].style.text} and ${texts[i].style.text}`);
  }
  return found;
})()
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_names_of_many_boxes_do_not_overlap(browser: Browser, tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(1)
    actual, user = rng.uniform(300.0, 900.0, 500), rng.integers(0, 20, 500).astype(np.int32)
    scores = [score(f"estimator-{k}", actual * rng.normal(1.0, 0.2, 500), actual, user) for k in range(30)]
    page = tmp_path / "report.html"
    page.write_text(document(scores, target="mean", workload="a", origin="generated", remarks=[]).html())
    browser.open(page, width=width)
    assert browser.js("wattqueue.errors") == []
    assert [row[0] for row in browser.js(SEEN)] == ["boxes"] * 2
    assert browser.js(OVERLAPPING) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_every_estimator_has_its_box(browser: Browser, tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(1)
    actual, user = rng.uniform(300.0, 900.0, 500), rng.integers(0, 20, 500).astype(np.int32)
    names = ["history-mean", "<b>mine</b>.py:Part", "gradient-quantiles"]
    scores = [score(name, actual * rng.normal(1.0, 0.2, 500), actual, user) for name in names]
    page = tmp_path / "report.html"
    page.write_text(
        document(scores, target="mean", workload="a & b", origin="generated", remarks=["<i>said</i>"]).html()
    )
    browser.open(page, width=width)
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
    assert len(browser.requests()) == 1
    assert browser.js(SEEN) == [["boxes", names[::-1], [3, 3]]] * 2
    assert browser.js(CUT) == []
    assert "<i>said</i>" in browser.js("document.body.innerText")
    assert browser.js("document.querySelectorAll('#table tbody tr').length") == 3
