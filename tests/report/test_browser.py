"""The report in a headless Chromium: no script error, no empty chart, no missing label."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.report.cases import by_hand, generated
from tests.report.chromium import Browser
from wattqueue.model.signals import Cap
from wattqueue.report.run_page import report

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel

# Everything a person would see at a glance, asked of the page itself.
LOOK = """
(() => Object.values(wattqueue.charts).map(({figure, chart}) => {
  const box = chart.getDom(), canvas = box.querySelector("canvas"), option = chart.getOption();
  const grids = chart.getModel().queryComponents({mainType: "grid"}).map((g) => g.coordinateSystem.getRect());
  const ratio = canvas.width / box.clientWidth;
  const inked = grids.map((r) => {
    const part = [r.x, r.y, r.width, r.height].map((v) => v * ratio);
    const pixels = canvas.getContext("2d").getImageData(...part).data;
    const seen = new Set();
    let painted = 0;
    for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 20) {
      painted++;
      seen.add((pixels[i] >> 4) + "," + (pixels[i + 1] >> 4) + "," + (pixels[i + 2] >> 4));
    }
    return [painted / (pixels.length / 4), seen.size];
  });
  const names = (axes) => axes.filter((a) => !(a.axisLabel && a.axisLabel.show === false)).map((a) => a.name);
  return { key: figure.key, kind: figure.kind, inked, x: names(option.xAxis), y: names(option.yAxis),
    rows: option.series.reduce((n, s) => n + (s.data || []).length, 0),
    key_text: figure.element.querySelector(".key").textContent };
}))()
"""

# Texts of charts that reach beyond their canvas, intervals beyond their axes, tables wider than their card.
CUT = """
(() => {
  const found = [];
  for (const {figure, chart} of Object.values(wattqueue.charts)) {
    const width = chart.getWidth(), height = chart.getHeight();
    for (const shape of chart.getZr().storage.getDisplayList(true)) {
      if (shape.type !== "tspan" || shape.ignore || shape.invisible || !shape.style.text) continue;
      const box = shape.getBoundingRect().clone(), to = shape.getComputedTransform();
      if (to) box.applyTransform(to);
      if (box.x < -1 || box.x + box.width > width + 1 || box.y < -1 || box.y + box.height > height + 1)
        found.push(`${figure.key}: ${shape.style.text}`);
    }
  }
  const c = (wattqueue.charts.pareto || {figure: {columns: {group: []}}}).figure, rows = c.columns;
  if (rows.group.length) {
    const [low, high] = wattqueue.charts.pareto.chart.getModel().getComponent("yAxis").axis.scale.getExtent();
    rows.group.forEach((group, i) => {
      const [at, half] = [rows.machine_energy_j[i] / c.y.scale, rows.machine_energy_half_j[i] / c.y.scale];
      if (at - half < Math.min(low, 0) || at + half > high) found.push(`pareto: interval of ${group}`);
    });
  }
  for (const box of document.querySelectorAll(".wide"))
    if (box.scrollWidth > box.clientWidth + 1)
      found.push(`table: ${box.getAttribute("aria-label")}`);
  return found;
})()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("pages")
    pages = {
        "small": by_hand(Cap.constant(2500.0)),
        "grid": generated(12_000, 96, cap_share=0.9),
        "rectangles": generated(900, 48),
        "uncapped": by_hand(),
    }
    for name, run in pages.items():
        (where / f"{name}.html").write_text(report(run), encoding="utf-8")
    return where


def expect_clean(browser: Browser) -> None:
    assert browser.errors() == []
    assert browser.js("wattqueue.errors") == []
    assert len(browser.requests()) == 1, "the page asked for something beside itself"


def look(browser: Browser) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.js(LOOK)
    return found


def expect_drawn(charts: list[dict[str, Any]]) -> None:
    for chart in charts:
        for share, hues in chart["inked"]:
            assert share > 0.004, f"{chart['key']} is empty"
            assert hues >= 2, f"{chart['key']} has one colour"
        assert chart["rows"] > 0, f"{chart['key']} has no data"
        for name in [*chart["x"], *chart["y"]]:
            assert name.strip(), f"{chart['key']} has an axis without a label"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, True), (360, False)], ids=str)
@pytest.mark.parametrize("name", ["small", "grid", "rectangles", "uncapped"])
def test_every_chart_is_drawn_and_labelled(
    browser: Browser, folder: Path, name: str, width: int, *, dark: bool
) -> None:
    browser.open(folder / f"{name}.html", width=width, dark=dark)
    expect_clean(browser)
    charts = look(browser)
    assert {"power", "gantt", "queue", "wait", "slowdown"} <= {chart["key"] for chart in charts}
    expect_drawn(charts)
    assert browser.js("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert browser.js(CUT) == []
    power = next(c for c in charts if c["key"] == "power")
    assert power["y"] == ["power (kW)"]
    assert ("cap" in power["key_text"]) == (name != "uncapped")


def test_an_empty_chart_and_a_missing_label_would_be_found(browser: Browser, folder: Path) -> None:
    browser.open(folder / "small.html")
    browser.js("wattqueue.charts.power.chart.setOption({series: []}, {replaceMerge: ['series']})")
    with pytest.raises(AssertionError) as caught:
        expect_drawn(look(browser))
    assert "power" in str(caught.value)
    browser.open(folder / "small.html")
    browser.js("wattqueue.charts.wait.chart.setOption({xAxis: {name: ' '}})")
    with pytest.raises(AssertionError) as caught:
        expect_drawn(look(browser))
    assert "wait" in str(caught.value)
    browser.js("setTimeout(() => { throw new Error('planted') })")
    browser.wait("wattqueue.errors.length")
    with pytest.raises(AssertionError):
        expect_clean(browser)


def ink(browser: Browser, key: str) -> str:
    """The picture of a chart, to see whether it changed."""
    got: str = browser.js(f"wattqueue.charts.{key}.chart.getDataURL()")
    return got


@pytest.mark.parametrize("name", ["grid", "rectangles"])
def test_gantt_changes_with_its_colouring(browser: Browser, folder: Path, name: str) -> None:
    browser.open(folder / f"{name}.html")
    pictures, keys = set(), set()
    for colour in ("power", "user", "frequency"):
        browser.js(f"document.querySelector('input[value={colour}]').click()")
        pictures.add(ink(browser, "gantt"))
        keys.add(browser.js("document.querySelector('#fig-gantt .key').textContent"))
    assert len(pictures) == 3
    assert len(keys) == 3
    assert any("GHz" in key for key in keys)
    expect_clean(browser)


def test_keys_zoom_all_charts_over_time_together(browser: Browser, folder: Path) -> None:
    browser.open(folder / "grid.html")
    before = {key: ink(browser, key) for key in ("power", "gantt", "queue", "wait")}
    browser.js("document.querySelector('#fig-power .chart').focus()")
    browser.key("+")
    browser.key("ArrowRight")
    zooms = browser.js(
        "['power','gantt','queue'].map(k => { const z = wattqueue.charts[k].chart.getOption().dataZoom[0];"
        " return [z.start, z.end] })"
    )
    assert zooms == [[35, 85]] * 3
    after = {key: ink(browser, key) for key in before}
    assert [key for key in before if before[key] != after[key]] == ["power", "gantt", "queue"]
    browser.key("0")
    assert ink(browser, "power") == before["power"]
    expect_clean(browser)


def test_everything_can_be_reached_with_the_tab_key(browser: Browser, folder: Path) -> None:
    browser.open(folder / "rectangles.html")
    seen = []
    for _ in range(70):
        browser.key("Tab")
        seen.append(
            browser.js(
                "(() => { const e = document.activeElement; const f = e.closest('figure');"
                " return [e.tagName, e.className, f && f.id, e.getAttribute('aria-label') || e.textContent.trim()] })()"
            )
        )
    first = seen[0]
    assert first[:2] == ["A", "skip"]
    seen = seen[: seen.index(first, 1)]  # once around
    charts = [f for tag, name, f, _ in seen if name == "chart"]
    assert charts == ["fig-power", "fig-gantt", "fig-queue", "fig-wait", "fig-slowdown", "fig-prediction", "fig-users"]
    assert all(label for tag, name, _, label in seen if name == "chart" or tag in ("BUTTON", "A"))
    assert sum(tag == "SUMMARY" for tag, *_ in seen) == len(charts)
    assert any(tag == "INPUT" for tag, *_ in seen)


def test_behind_each_picture_stands_its_data(browser: Browser, folder: Path) -> None:
    for name in ("grid", "rectangles"):
        browser.open(folder / f"{name}.html")
        browser.js("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.wait(
            "document.querySelectorAll('.scroll table').length === document.querySelectorAll('details').length"
        )
        tables = browser.js(
            "[...document.querySelectorAll('.scroll table')].map(t => [t.tHead.textContent, t.tBodies[0].rows.length])"
        )
        assert all(head.strip() and 1 <= rows <= 250 for head, rows in tables), tables
        expect_clean(browser)


def test_the_theme_can_be_switched_and_is_kept(browser: Browser, folder: Path) -> None:
    browser.open(folder / "small.html")
    background = "getComputedStyle(document.body).backgroundColor"
    light, before = browser.js(background), ink(browser, "wait")
    browser.js("document.getElementById('theme').click()")
    assert browser.js(background) != light
    assert ink(browser, "wait") != before
    browser.open(folder / "uncapped.html")
    assert browser.js("document.documentElement.dataset.theme") == "dark"
    browser.js("localStorage.clear()")


def test_a_tooltip_tells_the_job_under_the_pointer(browser: Browser, folder: Path) -> None:
    browser.open(folder / "small.html")
    at = browser.js(
        "(() => { const c = wattqueue.charts.gantt.chart, r = c.getDom().getBoundingClientRect();"
        " scrollTo({top: scrollY + r.top - 100, behavior: 'instant'}); const b = c.getDom().getBoundingClientRect();"
        " const p = c.convertToPixel({gridIndex: 0}, [50 / 60, 7.5]); return [b.left + p[0], b.top + p[1]] })()"
    )
    for shift in (0, 1):
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0] + shift, y=at[1])
    browser.wait("document.querySelector('#fig-gantt .tip')")
    tip = browser.js("document.querySelector('#fig-gantt .tip').innerText")
    assert "Job 2" in tip
    assert "200 W" in tip
    assert "bob" in tip


def test_a_zoomed_grid_shows_single_jobs_under_the_pointer(browser: Browser, folder: Path) -> None:
    browser.open(folder / "grid.html")
    assert browser.js("wattqueue.charts.gantt.figure.single") is False
    browser.js("zoomTo(20, 21)")
    browser.wait("wattqueue.charts.gantt.figure.single")
    job = browser.js(
        "(() => { const { figure } = wattqueue.charts.gantt, c = figure.packed, [a, b] = figure.view;"
        " const t = ((a + b) / 2) * figure.x.scale, k = c.start_s.findIndex((s, i) => s <= t && c.end_s[i] > t);"
        " const y = (c.unit_first[k] + .5) / figure.extra.units, box = figure.box;"
        " figure.mouse = [box.x + box.width / 2, box.y + y * box.height]; return [c.job_id[k], ganttTip(figure)] })()"
    )
    assert f"Job {job[0]}<" in job[1]
    browser.js("zoomTo(0, 100)")
    browser.wait("wattqueue.charts.gantt.figure.single === false")
    expect_clean(browser)


def test_it_prints(browser: Browser, folder: Path, tmp_path: Path) -> None:
    browser.open(folder / "grid.html", dark=True)
    browser.pdf(tmp_path / "report.pdf")
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 8
    assert browser.js("wattqueue.printing") is False
    expect_drawn(look(browser))
    expect_clean(browser)


def test_half_a_million_jobs_stay_fluid(
    browser: Browser, folder: Path, record_property: Callable[[str, object], None]
) -> None:
    """A zoom redraws the charts over time; the cost depends on bins and pixels, not on jobs. Its time is recorded."""
    browser.open(folder / "grid.html")
    took = browser.js(
        "(() => { const t = performance.now(); for (let i = 0; i < 10; i++) zoomTo(i, 60 + i);"
        " Object.values(wattqueue.charts).forEach(c => c.chart.getZr().flush());"
        " return (performance.now() - t) / 10 })()"
    )
    sizes = browser.js("wattqueue.charts.power.figure.columns.time_s.length")
    assert sizes <= 6_000
    record_property("zoom_ms", round(took))
